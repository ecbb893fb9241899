"""The checks of Gate 1: what they are called, and how an answer becomes a finding.

What belongs here: what checks of a run and checks of a metric share. What is checked is in `run_checks` and
`metric_checks`, and what becomes of a run in `run_validity`.
"""

from typing import Literal, TypeAlias

from perf_pipeline.gates.findings import CheckStatus, RunCheck

Consequence: TypeAlias = Literal["none", "drop metric", "set aside"]

FINISHED = "finished"
ACHIEVED_RATE = "achieved rate"
DROPPED_ITERATIONS = "dropped iterations"
THROTTLING = "CPU throttling"
RESTARTS = "restarts"
CLOCK = "clock"
ENVIRONMENT = "environment"
BUILD = "build"
COPY = "own measurements"
METRIC_PRESENT = "metric present"
SERIES_DENSITY = "series density"
RESOLUTION = "histogram resolution"
DRIFT = "drift"
STEPS = "steps"


def checked(
    check: str,
    metric: str | None,
    status: CheckStatus,
    message: str,
    on_fail: str,
    *,
    value: float | None = None,
    limit: float | None = None,
    unit: str = "",
) -> RunCheck:
    """A check that was answered; only a failure has a consequence, the one that the policy names."""
    consequence = _consequence(on_fail) if status == "fail" else "none"
    return RunCheck(check, metric, status, value, limit, unit, message, consequence)


def not_measured(
    check: str, metric: str | None, message: str, then: str, *, limit: float | None = None, unit: str = ""
) -> RunCheck:
    """A check that nothing was measured for; it is no pass, and the policy names what follows."""
    return RunCheck(check, metric, "not measured", None, limit, unit, message, _consequence(then))


def against(low: float, high: float, limit: float, beyond: float | None = None) -> CheckStatus:
    """Three answers from an interval: inside [-limit, limit], wholly beyond [-beyond, beyond], or neither."""
    if -limit <= low and high <= limit:
        return "pass"
    beyond = limit if beyond is None else beyond
    return "fail" if low > beyond or high < -beyond else "cannot tell"


def _consequence(then: str) -> Consequence:
    """The policy's word as the finding's: `keep` is no consequence."""
    return "set aside" if then == "set aside" else "drop metric" if then == "drop metric" else "none"
