"""docs/method.md is true to the policies and to the code."""

import re

import pytest

from perf_pipeline.files import project_file
from perf_pipeline.gates import (
    autoregression,
    error_rates,
    evidence,
    intervals,
    moderation,
    rate_change,
    repeat_agreement,
    steps,
)
from perf_pipeline.gates.looks import tail_at
from perf_pipeline.metrics import series
from tests.simulated_runs import policy

PAGE = project_file("docs/method.md").read_text(encoding="utf-8")
CODE = {
    "autoregression.MOST_BATCHES": autoregression.MOST_BATCHES,
    "autoregression.MOST_AUTOCORRELATION": autoregression.MOST_AUTOCORRELATION,
    "error_rates.DOUBT": error_rates.DOUBT,
    "evidence.PERCENTILES": len(evidence.PERCENTILES),
    "evidence.SHAPE_POINTS": evidence.SHAPE_POINTS,
    "intervals.ROTATIONS": intervals.ROTATIONS,
    "moderation.LEVEL_FROM": moderation.LEVEL_FROM,
    "rate_change.NONE_SEEN": rate_change.NONE_SEEN,
    "repeat_agreement.HALVES_TO_WHOLES": repeat_agreement.HALVES_TO_WHOLES,
    "steps.PENALTY": steps.PENALTY,
    "steps.SHORTEST_LEVEL": steps.SHORTEST_LEVEL,
}


def flat(values: dict, prefix: str = "") -> dict[str, str]:
    """Every limit by its dotted name, as the page writes it."""
    limits: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            limits |= flat(value, f"{prefix}{key}.")
        else:
            limits[f"{prefix}{key}"] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return {name: value for name, value in limits.items() if name not in ("name", "version")}


def expected_rows() -> list[tuple[str, ...]]:
    default, article = (flat(policy(name).model_dump()) for name in ("default", "v2.18"))
    limits = [(name, default[name] or "none", article[name] or "none") for name in default]
    return limits + [(name, str(value), str(value)) for name, value in CODE.items()]


def test_the_page_lists_every_constant_with_its_value() -> None:
    table = PAGE.split("## Constants")[1].split("## Sources")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|", table, flags=re.MULTILINE)
    assert [(name, one.strip(), other.strip()) for name, one, other in rows] == expected_rows()


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("averaged into at most {} batches", autoregression.MOST_BATCHES),
        ("fewer than {} sub-windows", policy().run_validity.drift.min_sub_windows),
        ("+-ln(1.0{:.0f}) per 240 s", 100 * policy().run_validity.drift.zone),
        ("ln(1.0{:.0f}) per hold", 100 * policy().run_validity.drift.min_change),
        ("levels of at least {} batches", steps.SHORTEST_LEVEL),
        ("a penalty of {:.0f} ln(n) s^2 each", steps.PENALTY),
        ("at any moment, is at most +-ln(1.0{:.0f})", 100 * policy().run_validity.steps.zone),
        ("fewer than {} batches", policy().run_validity.steps.min_sub_windows),
        ("wholly beyond {:.0f} % of the hold", 100 * policy().run_validity.clock.max_share),
        ("by {:.0f} requests at least", series.TELLING_REQUESTS),
        ("the upper limit of s is at most {:.0f} %", 100 * (policy().repeat_agreement.carried_cv or 0)),
        ("the mean over {} quantiles", evidence.SHAPE_POINTS),
        ("{} is 1/sqrt(2)", repeat_agreement.HALVES_TO_WHOLES),
        ("upper limit is at most {:.0f} %", 100 * policy().repeat_agreement.max_cv),
        ("up to {:.0f}, or up to the value", policy().repeat_agreement.max_dispersion),
        ("has {} percentiles", len(evidence.PERCENTILES)),
        ("t({:.3f}; df(p))", (1 + policy().change.confidence) / 2),
        ("for each of {:,} normal vectors", intervals.ROTATIONS),
        ("exceeds the {} quantile of F(d, d0)", policy().change.moderation.guard_quantile),
        ("At least {}, earlier campaigns", policy().change.moderation.min_scenarios),
        ("the repeats that bring this chance to {:.0f} %", 100 * policy().change.power),
        (
            "replaces the tail by tail / {:.0f} / N",
            (1 - policy().change.confidence) / (1 - policy().change.campaign_confidence),
        ),
        ("these tails are {:.2f}, ", 100 * tail_at(5, (5, 8, 12), policy().change.looks.spending, 0.025)),
        (", {:.2f} and ", 100 * tail_at(8, (5, 8, 12), policy().change.looks.spending, 0.025)),
        (" and {:.2f} %. Bands", 100 * tail_at(12, (5, 8, 12), policy().change.looks.spending, 0.025)),
        ("its upper {:.0f} % limit", 100 * (1 - error_rates.DOUBT)),
        ("Beyond {} repeats", policy().change.max_repeats_named),
        ("t({:.2f}) se", policy().change.power),
        ('"{:.0f} %" is [-ln 1.1, +ln 1.1]', 100 * policy().change.zone["client_latency"]),
        ("ln(1 + zone/{:.0f})", 1 / policy().repeat_agreement.floor_share_of_zone),
        ("at most {:.1f} % per campaign", 100 * (1 - policy().change.campaign_confidence)),
    ],
)
def test_the_numbers_in_its_sentences_are_those_of_the_code(sentence: str, value: float) -> None:
    assert sentence.format(value) in " ".join(PAGE.split())
