"""What a report says besides the judgement: what was measured, under which limits, and how to do it again.

What belongs here: plain text around a judgement, collected from what `judge` hands on. No statistics.
"""

from dataclasses import dataclass

from perf_pipeline.gates.evidence import ERROR_RATES
from perf_pipeline.gates.policy import Policy
from perf_pipeline.judge import Judged
from perf_pipeline.report.run_curves import RunCurve, curves_of
from perf_pipeline.report.wording import zone


@dataclass(frozen=True)
class ReportContext:
    """The text around a judgement."""

    title: str
    """What was tested, in a few words, such as the name of the plan."""
    facts: tuple[tuple[str, str], ...] = ()
    """(label, value): service, plan, workload hash and requests, repeats, hold, k6 version, environment, when."""
    reproduce: str = ""
    """The commands that lead to this report again; empty when there is nothing to say."""
    policy_limits: tuple[tuple[str, str], ...] = ()
    """(label, value with its unit): the limits of the policy that a reader wants to see beside the verdicts."""
    index: str = ""
    """Where the index over all comparisons lies, seen from the report; empty when there is none."""
    curves: tuple[RunCurve, ...] = ()
    """The single runs, for the pictures; without them a report shows what the gates found and no run by itself."""


def context_of(judged: Judged, title: str, reproduce: str) -> ReportContext:
    """The text around a judgement: its facts, and the limits of its policy."""
    return ReportContext(title, judged.facts, reproduce, _limits(judged.policy), curves=curves_of(judged.runs))


def _limits(policy: Policy) -> tuple[tuple[str, str], ...]:
    """The limits that a reader wants to see beside the verdicts, each with its unit."""
    validity, agreement, change = policy.run_validity, policy.repeat_agreement, policy.change
    return (
        ("Zone of a percentile of latency", _zone("client_latency", change.zone["client_latency"])),
        ("Zone of a number", _zone("service_p99", change.zone["service_p99"])),
        ("Zone of an error rate", _zone("http_error_rate", change.zone["http_error_rate"])),
        ("Confidence", f"{change.confidence:.0%}"),
        ("Load within", f"{validity.achieved_rate.max_deviation:.0%} of the target rate"),
        ("Drifting beyond", f"{validity.drift.zone:.0%} per {validity.drift.per_s:g} s"),
        ("Throttled beyond", f"{validity.throttling.max_share:.0%} of CPU periods"),
        ("Repeats of a number agree below", f"{agreement.max_cv:.0%} coefficient of variation"),
    )


def _zone(metric: str, size: float) -> str:
    """The zone of a metric in words: a ratio goes as far down as up when both are multiplied."""
    return zone(metric, -size if metric in ERROR_RATES else 1 / (1 + size) - 1, size)
