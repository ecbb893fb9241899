"""The lab's own noise: what the view says exactly, and when it is said to have grown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.history.noise import FALSE_ALARM, CellNoise, grown_from, lab_noise
from perf_pipeline.warehouse import Warehouse
from tests.report_judgements import no_regression
from tests.test_history_releases import DAY, keep


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


def night(number: int, sees: float, repeats: int = 5, metric: str = "service_p99") -> Judgement:
    """A comparison whose cells are all as they were, but one, which would have seen that much."""
    found = replace(no_regression(), baseline="1.0", candidate=f"2.{number}")
    verdicts = tuple(
        replace(one, smallest_detectable=sees, baseline_repeats=repeats)
        if (one.scenario, one.metric) == ("browse", metric)
        else one
        for one in found.verdicts
    )
    return replace(found, verdicts=verdicts)


def cell(cells: list[CellNoise]) -> CellNoise:
    (found,) = [one for one in cells if (one.scenario, one.metric) == ("browse", "service_p99")]
    return found


def test_the_view_says_exactly_what_was_judged(warehouse: Warehouse) -> None:
    """Half the width, the smallest change, the fewer repeats, the baseline: numbers by hand."""
    found = no_regression()
    exact = tuple(
        replace(
            one,
            low=-0.03, high=0.05, smallest_detectable=0.125, baseline_repeats=4, candidate_repeats=6,
            baseline_value=12.5, candidate_value=99.0, unit="ms",
        )
        if (one.scenario, one.metric) == ("browse", "service_p99")
        else one
        for one in found.verdicts
    )  # fmt: skip
    key = keep(warehouse, replace(found, verdicts=exact), 3)
    rows = warehouse.query("FROM noise_floor").to_pylist()
    (row,) = [row for row in rows if (row["scenario"], row["metric"]) == ("browse", "service_p99")]
    assert row["measured_from"] == DAY.replace(day=4)
    assert (row["comparison"], row["repeats"], row["baseline_value"], row["unit"]) == (key, 4, 12.5, "ms")
    assert row["half_width"] == pytest.approx(0.04, rel=1e-12)
    assert row["smallest_detectable"] == pytest.approx(0.125, rel=1e-12)
    assert len(rows) == 12, "what is absent has no row"


def test_the_newest_comparison_is_held_against_the_median_of_those_before(warehouse: Warehouse) -> None:
    for number, sees in enumerate((0.08, 0.30, 0.06, 0.07, 0.09, 0.05, 0.10, 0.08, 0.15)):
        keep(warehouse, night(number, sees), number)
    found = cell(lab_noise(warehouse))
    assert found.comparison == "1.0__2.8"
    assert found.now == pytest.approx(0.15)
    assert found.before == pytest.approx(0.08)
    assert (found.earlier, found.repeats, found.repeats_before) == (8, 5, 5)
    assert found.grew == pytest.approx((0.15 - 0.05) / (0.08 - 0.05))
    assert lab_noise(warehouse)[0] == found, "what grew comes first"
    assert [one.grew for one in lab_noise(warehouse)[1:]] == [None] * 11


def test_noise_that_chance_or_fewer_repeats_explain_has_not_grown(warehouse: Warehouse) -> None:
    for number in range(8):
        keep(warehouse, night(number, 0.08), number)
    assert cell(lab_noise(warehouse)).before == pytest.approx(0.08)
    assert cell(lab_noise(warehouse)).known_before is None, "seven are too few"
    keep(warehouse, night(8, 0.11), 8)
    assert cell(lab_noise(warehouse)).known_before == pytest.approx(0.08)
    assert cell(lab_noise(warehouse)).grew is None, "twice is what twelve cells show by chance"
    keep(warehouse, night(9, 0.2, repeats=3), 9)
    assert cell(lab_noise(warehouse)).grew is None


@pytest.mark.parametrize(("repeats", "cells", "earlier"), [(3, 12, 8), (5, 12, 8), (5, 100, 30), (10, 12, 30)])
def test_a_lab_that_is_as_it_was_is_rarely_said_to_be_noisier(repeats: int, cells: int, earlier: int) -> None:
    generator, df, pages = np.random.default_rng(5), 2 * (repeats - 1), 1_000
    now = np.sqrt(generator.chisquare(df, (pages, cells)))
    before = np.median(np.sqrt(generator.chisquare(df, (pages, cells, earlier))), axis=2)
    alarms = (now > grown_from(repeats, earlier, cells) * before).any(axis=1).sum()
    assert alarms <= pages * FALSE_ALARM + 3 * (pages * FALSE_ALARM) ** 0.5


def test_a_lab_that_is_four_times_as_noisy_is_told() -> None:
    generator, df = np.random.default_rng(6), 8
    now = 4 * np.sqrt(generator.chisquare(df, 1_000))
    before = np.median(np.sqrt(generator.chisquare(df, (1_000, 15))), axis=1)
    assert (now > grown_from(5, 15, 12) * before).mean() > 0.9
