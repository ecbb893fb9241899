"""The report on a terminal: the decision in the first line, and every verdict in a line of its own.

What belongs here: layout in columns of letters. It fits 80 columns and shows the measured values too where there is
more room. Colour is an addition: each verdict has its word and its glyph, so a log without colours says the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderResult
from rich.text import Text

from perf_pipeline.gates.findings import Answer, ArmAgainstItself, Judgement, RunValidity, Verdict, VerdictName
from perf_pipeline.report import overview
from perf_pipeline.report.context import ReportContext
from perf_pipeline.report.design import arm_sentence, design_sentence
from perf_pipeline.report.wording import (
    GLYPHS,
    MEANINGS,
    UNKNOWN,
    baseline_to_candidate,
    change_text,
    change_unit,
    control_sentence,
    listed,
    metric_label,
    percentile_label,
    prose,
    sentence,
    verdict_word,
    zone,
)

_STYLES: Mapping[VerdictName, str] = {
    "regression": "bold red",
    "improvement": "bold blue",
    "equivalent": "green",
    "inconclusive": "yellow",
    "not comparable": "dim",
}
_ANSWER_STYLES: Mapping[Answer, str] = {
    "regression": "bold white on red",
    "no regression": "bold white on green",
    "not enough evidence": "bold black on yellow",
}
_RUNS_SHOWN = 20
_ALIKE = 4
"""So many runs that were set aside by the same checks are named in one line, with the numbers of the first."""
_LINES_IN_SIGHT = 40
"""Of a log or a pager; a terminal knows how many it shows. Beyond them the decision has left the screen when the last
line is printed, and is said again."""


def render(judgement: Judgement, context: ReportContext) -> ConsoleRenderable:
    """The report as something that a rich console prints."""
    return _TerminalReport(judgement, context)


@dataclass(frozen=True)
class _Line:
    """The texts of one verdict, column by column."""

    scenario: str
    metric: str
    verdict: str
    style: str
    change: str
    low: str
    high: str
    zone: str
    values: str


@dataclass(frozen=True)
class _TerminalReport:
    judgement: Judgement
    context: ReportContext

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        decision = self.judgement.decision
        answer = (f" {decision.answer.upper()} ", _ANSWER_STYLES[decision.answer])
        said = Text.assemble(answer, f" {prose(decision.headline)}")
        everything = [said, *self._below_the_decision(console, options)]
        yield from everything
        in_sight = console.size.height if console.is_terminal else _LINES_IN_SIGHT
        if len(console.render_lines(Group(*everything), options, pad=False)) > in_sight:
            yield Text()
            yield said

    def _below_the_decision(self, console: Console, options: ConsoleOptions) -> Iterable[ConsoleRenderable]:
        judgement = self.judgement
        decision = judgement.decision

        def bulleted(heading: str, items: Sequence[str]) -> Iterable[ConsoleRenderable]:
            yield Text()
            yield Text(heading, style="bold")
            for item in items:
                for number, line in enumerate(Text(prose(item)).wrap(console, options.max_width - 4)):
                    line.rstrip()
                    yield Text.assemble("    " if number else "  • ", line)

        yield Text(
            f"{self.context.title}: candidate {judgement.candidate} against baseline {judgement.baseline};"
            f" {overview.what_was_compared(judgement)}; policy {judgement.policy_name}, version"
            f" {judgement.policy_version}.",
            style="dim",
        )
        if design := design_sentence(judgement):
            yield Text(design, style="dim")
        yield _control(judgement)
        if judgement.aa_arm:
            yield _arm(judgement.aa_arm)
        yield from bulleted("Not known", decision.not_known or ["Nothing that was asked is left open."])
        if judgement.notes:
            yield from bulleted("Notes", judgement.notes)
        yield Text()
        yield from _matrix(judgement, options.max_width)
        if reasons := _reasons(judgement):
            yield from bulleted("Not comparable", reasons)
        for metric, reason in overview.absent_metrics(judgement).items():
            yield Text()
            yield Text(f"{metric_label(metric)} was not measured. {sentence(reason)}")
        if together := overview.together(decision.known):
            yield from bulleted("Over all scenarios", together)
        yield from bulleted(f"Gate 1, {overview.runs_sentence(judgement.runs)}", _runs(judgement))
        if self.context.reproduce:
            yield Text()
            # One line however long, so that it can be copied; the console must not crop it.
            yield Text.assemble(("Judge it again: ", "dim"), self.context.reproduce, no_wrap=True, overflow="ignore")


def _control(judgement: Judgement) -> Text:
    control = judgement.negative_control
    return Text.assemble(
        "Negative control: ",
        (control.status, _control_style(control.status)),
        f", {metric_label(control.metric)}. {control_sentence(control)}",
    )


def _arm(arm: ArmAgainstItself) -> Text:
    return Text.assemble("A/A arm: ", (arm.status, _control_style(arm.status)), f". {arm_sentence(arm)}")


def _control_style(status: str) -> str:
    return {"moved": "bold red", "quiet": "green"}.get(status, "yellow")


def _matrix(judgement: Judgement, width: int) -> Iterable[ConsoleRenderable]:
    """One line a verdict below the name of its scenario, then what the words mean."""
    absent = overview.absent_metrics(judgement)
    rows = overview.scenario_rows(judgement)
    lines = [_line(verdict) for row in rows for verdict in row.verdicts if verdict.metric not in absent]
    if not lines:
        yield Text("No metric was judged in any scenario.")
        return
    sides = f"{judgement.baseline} → {judgement.candidate}"
    head = _Line("", "", "verdict", "dim", "change", "[low,", "high]", "zone", sides)
    columns = ("metric", "verdict", "change", "low", "high", "zone", "values")
    widths = {name: max(len(getattr(line, name)) for line in (*lines, head)) for name in columns}
    least = 2 + sum(widths.values()) - widths["values"] + len(columns) - 2
    gap = "  " if least + len(columns) - 3 <= width else " "
    with_values = least + len(columns) - 2 + len(gap) + widths["values"] <= width

    def written(line: _Line) -> Text:
        text = Text.assemble(
            f"  {line.metric:<{widths['metric']}}{gap}",
            (f"{line.verdict:<{widths['verdict']}}", line.style),
            f"{gap}{line.change:>{widths['change']}}{gap}",
            f"{line.low:>{widths['low']}} {line.high:>{widths['high']}}{gap}",
            (f"{line.zone:<{widths['zone']}}", "dim"),
            f"{gap}{line.values}" if with_values else "",
            no_wrap=True,
            overflow="ellipsis",
        )
        text.rstrip()
        return text

    heading = written(head)
    heading.stylize("dim")
    yield heading
    scenario = None
    for line in lines:
        if line.scenario != scenario:
            scenario = line.scenario
            yield Text(scenario, style="bold")
        yield written(line)
    yield Text()
    for name in MEANINGS:
        if any(line.verdict == f"{GLYPHS[name]} {name}" for line in lines):
            yield Text.assemble((f"{GLYPHS[name]} {name:<16}", _STYLES[name]), (MEANINGS[name], "dim"))
    yield Text("Changes, intervals and zones in % (error rates: percentage points), + is worse.", style="dim")


def _line(verdict: Verdict) -> _Line:
    text = change_text(verdict)
    word = verdict_word(verdict)
    known = text.interval != UNKNOWN
    return _Line(
        scenario=verdict.scenario,
        metric=f"{metric_label(verdict.metric)} {percentile_label(verdict.deciding_percentile)}".rstrip(),
        verdict=word if verdict.absent else f"{GLYPHS[verdict.verdict]} {word}",
        style=_STYLES[verdict.verdict],
        change=text.change,
        low=f"[{text.low}," if known else "",
        high=f"{text.high}]" if known else "",
        zone=_zone(verdict),
        values=baseline_to_candidate(verdict),
    )


def _zone(verdict: Verdict) -> str:
    """The zone in few letters; the change beside it carries the unit."""
    text = zone(verdict.metric, verdict.zone_low, verdict.zone_high)
    return text.replace(f" {change_unit(verdict.metric)}", "").replace(" to ", "…")


def _reasons(judgement: Judgement) -> list[str]:
    """Why verdicts are not comparable: each reason once, with what it holds for."""
    items = []
    for reason, places in overview.why_not_comparable(judgement).items():
        where = [f"{scenario}: {listed(list(map(metric_label, names)))}" for scenario, names in places.items()]
        items.append(f"{'; '.join(where)}. {sentence(reason)}")
    return items


def _runs(judgement: Judgement) -> list[str]:
    """The runs that are missing from the comparison, wholly or for some metrics, each with the reason."""
    alike: dict[tuple[str, ...], list[RunValidity]] = {}
    for run in overview.runs_with(judgement, "set aside"):
        alike.setdefault(overview.decisive_checks(run) or (run.run_id,), []).append(run)
    runs = []
    for checks, some in alike.items():
        if len(some) >= _ALIKE:
            names = [run.run_id for run in some[:_RUNS_SHOWN]]
            more = [f"{len(some) - _RUNS_SHOWN} more"] if len(some) > _RUNS_SHOWN else []
            by = f"{len(some)} set aside by {listed(checks)}: {listed([*names, *more])}"
            runs.append(f"{by}. {names[0]}: {sentence(some[0].reason)}")
        else:
            runs.extend(f"{run.run_id} set aside: {sentence(run.reason)}" for run in some)
    for run in overview.runs_with(judgement, "metric dropped"):
        runs.append(f"{run.run_id} lost {', '.join(map(metric_label, run.dropped_metrics))}: {sentence(run.reason)}")
    if len(runs) <= _RUNS_SHOWN:
        return runs
    return [*runs[:_RUNS_SHOWN], f"and {len(runs) - _RUNS_SHOWN} more; the HTML report and the JSON list them all"]
