"""The lab's own noise: what the view says exactly, and what the newest comparison is held against."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.history.noise import EARLIER, CellNoise, lab_noise
from perf_pipeline.warehouse import Warehouse
from tests.report_judgements import no_regression
from tests.test_history_releases import DAY, keep


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


def night(number: int, sees: float | None, **others: float) -> Judgement:
    """A comparison whose cells are all as they were, but one, which would have seen that much."""
    found = replace(no_regression(), baseline="1.0", candidate=f"2.{number}")
    verdicts = tuple(
        replace(one, smallest_detectable=sees, **others)
        if (one.scenario, one.metric) == ("browse", "service_p99")
        else one
        for one in found.verdicts
    )
    return replace(found, verdicts=verdicts)


def cell(warehouse: Warehouse) -> CellNoise:
    lab = lab_noise(warehouse)
    assert lab
    (found,) = [one for one in lab.cells if (one.scenario, one.metric) == ("browse", "service_p99")]
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
    for number, sees in enumerate((0.08, 0.30, 0.06, 0.07, 0.09, 0.05, 0.10, 0.08, 0.25)):
        keep(warehouse, night(number, sees), number)
        if number == 7:
            assert cell(warehouse).before == pytest.approx(0.08)
            assert cell(warehouse).known_before is None, "seven are too few"
    found, lab = cell(warehouse), lab_noise(warehouse)
    assert lab
    assert (lab.comparison, len(lab.cells), lab.unmeasured) == ("1.0__2.8", 12, 0)
    assert found.now == pytest.approx(0.25)
    assert found.known_before == pytest.approx(0.08)
    assert (found.earlier, found.repeats, found.repeats_before) == (8, 5, 5)
    assert lab.cells[0] == found, "the noisiest in zones comes first"


def test_only_the_last_thirty_before_it_count(warehouse: Warehouse) -> None:
    for number in range(EARLIER + 4):
        keep(warehouse, night(number, 0.3 if number < 3 else 0.08 + number * 1e-4), number)
    assert cell(warehouse).earlier == EARLIER
    assert cell(warehouse).before == pytest.approx(0.08 + 17.5e-4)


def test_what_had_another_zone_is_not_compared(warehouse: Warehouse) -> None:
    for number in range(8):
        keep(warehouse, night(number, 0.08), number)
    for number in range(8, 16):
        keep(warehouse, night(number, 0.14, zone_high=0.1), number)
    assert (cell(warehouse).zone, cell(warehouse).earlier) == (0.1, 7)
    assert cell(warehouse).known_before is None
    keep(warehouse, night(16, 0.09), 16)
    assert (cell(warehouse).zone, cell(warehouse).earlier) == (0.05, 8), "those of the same zone, however long ago"
    assert cell(warehouse).known_before == pytest.approx(0.08)
    keep(warehouse, night(17, 0.09, zone_low=-0.04), 17)
    assert cell(warehouse).earlier == 0, "either edge makes another zone"


def test_cells_that_tell_no_noise_are_counted(warehouse: Warehouse) -> None:
    for number in range(8):
        keep(warehouse, night(number, 0.08), number)
    keep(warehouse, night(8, None), 8)
    lab = lab_noise(warehouse)
    assert lab
    assert (lab.comparison, len(lab.cells), lab.unmeasured) == ("1.0__2.8", 11, 1)
    assert ("browse", "service_p99") not in {(one.scenario, one.metric) for one in lab.cells}
    keep(warehouse, night(9, math.inf), 9)
    lab = lab_noise(warehouse)
    assert lab
    assert (lab.comparison, len(lab.cells), lab.unmeasured) == ("1.0__2.9", 11, 1)
    keep(warehouse, night(10, 0.08), 10)
    assert cell(warehouse).earlier == 8, "nor are they among the earlier ones"
