"""How a judgement is arranged for reading: what comes first, what is counted, what is left out because it is absent.

What belongs here: order and counts that the terminal, the Markdown and the page share. Words are in `wording`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perf_pipeline.gates.comparison import in_short
from perf_pipeline.gates.evidence import METRICS, NEGATIVE_CONTROL
from perf_pipeline.gates.findings import CheckStatus, Judgement, RunStatus, RunValidity, Verdict, VerdictName
from perf_pipeline.report.wording import plural

VERDICTS_WORST_FIRST: tuple[VerdictName, ...] = (
    "regression",
    "inconclusive",
    "not comparable",
    "improvement",
    "equivalent",
)
"""What needs a reader's attention first."""


_TOGETHER = re.compile(r"^(Over \d+ scenarios |In scenarios in general)| differs from no change at all")
"""How `gates.decision` begins, or says, what holds for all scenarios together."""

_SECTIONS = (
    (
        re.compile(
            r"^\d+ of \d+ runs? ((was|were) set aside|lost metrics)|: too few usable runs|: .* usable of \d+ run"
        ),
        "runs",
        "Gate 1",
    ),
    (re.compile(r"^What is missing may be what changed"), "verdicts", "Verdicts"),
    (re.compile(r": repeats of .+ disagree,"), "agreement", "Gate 2"),
    (re.compile(r"^The negative control |there is no negative control\.$"), "control", "Negative control"),
    (re.compile(r" against itself \(A/A\) "), "arm", "A/A arm"),
    (re.compile(r" (is|are) inconclusive [(i]| could not be compared [(i]"), "details", "Each verdict"),
)
"""How `gates.open_questions` says what is not known, and the section of the page with the numbers of it."""


@dataclass(frozen=True)
class ScenarioRow:
    """The verdicts of one scenario, metrics in reading order."""

    scenario: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class CheckCount:
    """How one check of Gate 1 went over all runs."""

    check: str
    counts: Mapping[CheckStatus, int]


def scenario_rows(judgement: Judgement) -> tuple[ScenarioRow, ...]:
    """One row a scenario, those with the worst verdicts first, else in the order of the judgement."""
    by_scenario: dict[str, list[Verdict]] = {}
    for verdict in judgement.verdicts:
        by_scenario.setdefault(verdict.scenario, []).append(verdict)
    order = {metric: place for place, metric in enumerate(metrics(judgement))}
    rows = [
        ScenarioRow(scenario, tuple(sorted(verdicts, key=lambda verdict: order[verdict.metric])))
        for scenario, verdicts in by_scenario.items()
    ]
    return tuple(sorted(rows, key=lambda row: min(map(_severity, row.verdicts))))


def worst_first(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts, those that need attention first, else in their order."""
    return tuple(sorted(verdicts, key=_severity))


def in_reading_order(known: Iterable[str]) -> tuple[str, ...]:
    """What is known, statements about all scenarios together last.

    A mean over scenarios may be settled where no scenario is: it must not be read first as if it were a verdict.
    """
    return tuple(sorted(known, key=lambda sentence: bool(_TOGETHER.search(sentence))))


def together(known: Iterable[str]) -> tuple[str, ...]:
    """Of what is known, what holds for all scenarios together."""
    return tuple(sentence for sentence in known if _TOGETHER.search(sentence))


def section_of(question: str) -> tuple[str, str] | None:
    """Where the numbers are of what is not known: id and name of a section of the page; None when there is none."""
    return next(((place, name) for pattern, place, name in _SECTIONS if pattern.search(question)), None)


def metrics(judgement: Judgement) -> tuple[str, ...]:
    """Every metric of the judgement in reading order; metrics that we do not know come last."""
    known = {metric: place for place, metric in enumerate(METRICS)}
    seen = dict.fromkeys(verdict.metric for verdict in judgement.verdicts)
    return tuple(sorted(seen, key=lambda metric: known.get(metric, len(known))))


def absent_metrics(judgement: Judgement) -> dict[str, str]:
    """The metrics that are absent in every scenario, each with its reason."""
    by_metric: dict[str, list[Verdict]] = {}
    for verdict in judgement.verdicts:
        by_metric.setdefault(verdict.metric, []).append(verdict)
    return {
        metric: by_metric[metric][0].reason
        for metric in metrics(judgement)
        if all(verdict.absent for verdict in by_metric[metric])
    }


def verdict_counts(judgement: Judgement) -> dict[VerdictName, int]:
    """How often each verdict was given, worst first; verdicts never given are 0.

    Absent metrics are not counted, nor is the negative control: what it does is no news about the version.
    """
    counts = Counter(
        verdict.verdict for verdict in judgement.verdicts if not verdict.absent and verdict.metric != NEGATIVE_CONTROL
    )
    return {name: counts[name] for name in VERDICTS_WORST_FIRST}


def why_not_comparable(judgement: Judgement) -> dict[str, dict[str, list[str]]]:
    """Why verdicts are not comparable: by reason in short, then by scenario, the metrics.

    Absent metrics are not among them. What Gate 2 measured is left out: it differs from cell to cell, and would hide
    that the cause does not.
    """
    absent = absent_metrics(judgement)
    found: dict[str, dict[str, list[str]]] = {}
    for verdict in judgement.verdicts:
        if verdict.verdict == "not comparable" and verdict.metric not in absent:
            found.setdefault(in_short(verdict.reason), {}).setdefault(verdict.scenario, []).append(verdict.metric)
    return found


def runs_with(judgement: Judgement, status: RunStatus) -> tuple[RunValidity, ...]:
    """The runs that Gate 1 gave this status."""
    return tuple(run for run in judgement.runs if run.status == status)


def decisive_checks(run: RunValidity) -> tuple[str, ...]:
    """The checks that cost a run its place: `("achieved rate", "dropped iterations")`; none when none is named."""
    return tuple(dict.fromkeys(check.check for check in run.checks if check.consequence == "set aside"))


def runs_sentence(runs: Sequence[RunValidity]) -> str:
    """What Gate 1 did with the runs: "20 runs: 18 passed, 1 lost a metric, 1 set aside"."""
    counts = Counter(run.status for run in runs)
    if not runs:
        return "no runs"
    if counts["passed"] == len(runs):
        return f"{plural(len(runs), 'run')}: all passed"
    lost = "lost a metric" if counts["metric dropped"] == 1 else "lost metrics"
    parts = [
        f"{counts['passed']:,} passed",
        *([f"{counts['metric dropped']:,} {lost}"] if counts["metric dropped"] else []),
        *([f"{counts['set aside']:,} set aside"] if counts["set aside"] else []),
    ]
    return f"{plural(len(runs), 'run')}: {', '.join(parts)}"


def what_was_compared(judgement: Judgement) -> str:
    """The size of the comparison: "2 scenarios, 6 metrics, 20 runs"."""
    asked = len(metrics(judgement)) - len(absent_metrics(judgement))
    scenarios = len({verdict.scenario for verdict in judgement.verdicts})
    return f"{plural(scenarios, 'scenario')}, {plural(asked, 'metric')}, {plural(len(judgement.runs), 'run')}"


def check_counts(judgement: Judgement) -> tuple[CheckCount, ...]:
    """How each check of Gate 1 went, in the order in which the checks were made."""
    counts: dict[str, Counter[CheckStatus]] = {}
    for run in judgement.runs:
        for check in run.checks:
            counts.setdefault(check.check, Counter())[check.status] += 1
    return tuple(CheckCount(name, count) for name, count in counts.items())


def _severity(verdict: Verdict) -> int:
    """Place in the order of attention; what is absent and the negative control come last."""
    aside = verdict.absent or verdict.metric == NEGATIVE_CONTROL
    return len(VERDICTS_WORST_FIRST) if aside else VERDICTS_WORST_FIRST.index(verdict.verdict)
