"""How the plan of a campaign shows in its findings, in words: looks, pairs, lent degrees of freedom, the A/A arm.

What belongs here: sentences about what was fixed before the first run and about how far a finding reaches. Changes and
verdicts are said in `wording`.
"""

from perf_pipeline.gates.findings import ArmAgainstItself, Judgement, Pooled, Verdict
from perf_pipeline.report.wording import (
    UNKNOWN,
    bracketed,
    change,
    finite,
    listed,
    plural,
    sentence,
)

_NAMED = 3
"""How many scenarios that changed are named; the others are counted."""


def design_sentence(judgement: Judgement) -> str:
    """Which look this is of those that were planned, and whether runs were paired; empty when there is nothing to say.

    `Judged at look 2 of 3, planned before the first run at 5, 8 and 12 repeats per version.`
    """
    sentences = []
    reached = sorted({verdict.look for verdict in judgement.verdicts if verdict.look is not None})
    if judgement.looks and reached:
        number = f"look {reached[0]}" if len(reached) == 1 else f"looks {reached[0]} to {reached[-1]}, by scenario,"
        planned = listed([str(look) for look in judgement.looks])
        sentences.append(
            f"Judged at {number} of {len(judgement.looks)}, planned before the first run at {planned} repeats per"
            " version."
        )
    if any(verdict.paired for verdict in judgement.verdicts):
        sentences.append("Runs of one block are compared as pairs, as was planned before the first run.")
    return " ".join(sentences)


def runs_compared(verdict: Verdict) -> str:
    """The runs behind a verdict: `5 of baseline, 5 of candidate, 12.3 degrees of freedom, 4.9 of them lent by ...`."""
    if verdict.paired:
        runs = f"{plural(verdict.candidate_repeats, 'pair')}, each of one block"
    else:
        runs = f"{verdict.baseline_repeats} of baseline, {verdict.candidate_repeats} of candidate"
    if finite(verdict.df) is None:
        return runs
    lent = finite(verdict.prior_df)
    from_others = f", {lent:.1f} of them lent by the other scenarios" if lent else ""
    return f"{runs}, {verdict.df:.1f} degrees of freedom{from_others}"


def look_of(verdict: Verdict, looks: tuple[int, ...]) -> str:
    """The look of a verdict, and the probability that its interval may miss: `2 of 3; its interval holds 97.7 %`."""
    if verdict.look is None or not looks:
        return ""
    holds = "" if finite(verdict.tail) is None else f"; its interval leaves out {200 * (verdict.tail or 0):.2g} %"
    return f"{verdict.look} of {len(looks)}{holds}"


def in_general(pooled: Pooled) -> str:
    """The interval that holds for scenarios in general; a dash where one scenario is no sample."""
    return bracketed(pooled.metric, pooled.general_low, pooled.general_high)


def which_changed(pooled: Pooled) -> str:
    """The scenarios that differ from no change when all are asked at once: `browse +4.0 % (p 0.003)`; "none"."""
    if not pooled.changed:
        return "none"
    named = [
        f"{item.scenario} {change(pooled.metric, item.estimate)} ({_p_value(item.p_value)})"
        for item in pooled.changed[:_NAMED]
    ]
    more = len(pooled.changed) - _NAMED
    return listed([*named, f"{more} more"] if more > 0 else named)


def arm_name(arm: ArmAgainstItself) -> str:
    """What the A/A arm compares: `1.0.0 against itself (A/A)`."""
    return f"{arm.baseline} against itself (A/A)"


def arm_sentence(arm: ArmAgainstItself) -> str:
    """What the A/A arm found, as a sentence of its own."""
    return sentence(f"{arm.baseline} against itself {arm.message}") if arm.message.strip() else UNKNOWN


def _p_value(value: float) -> str:
    if finite(value) is None:
        return f"p {UNKNOWN}"
    text = "p < 0.001" if value < 0.001 else f"p {value:.2g}"
    return text.replace(" ", "\N{NO-BREAK SPACE}")
