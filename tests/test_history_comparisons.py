"""Every comparison that was judged, read from a real warehouse."""

from dataclasses import replace
from pathlib import Path

import pytest

from perf_pipeline.history.comparisons import judged_comparisons, kept_chains
from perf_pipeline.history.releases import chain_table
from perf_pipeline.warehouse import Warehouse
from tests.report_histories import chained
from tests.report_judgements import baseline_differs_from_itself, everything_set_aside, regression
from tests.test_history_releases import keep


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


def test_the_newest_comes_first_with_its_worst_cell_and_its_counts(warehouse: Warehouse) -> None:
    keep(warehouse, regression(), 1)
    keep(warehouse, replace(baseline_differs_from_itself(), baseline="1.1.0", candidate="1.2.0"), 2)
    keep(warehouse, replace(everything_set_aside(), baseline="1.2.0", candidate="1.3.0"), 3)
    nothing, quiet, regressed = judged_comparisons(warehouse)
    assert [item.comparison for item in (nothing, quiet, regressed)] == [
        *("1.2.0__1.3.0", "1.1.0__1.2.0", "1.0.0__1.1.0"),
    ]
    assert (regressed.answer, regressed.aa_status, quiet.aa_status) == ("regression", None, "moved")
    assert regressed.counts == {"regression": 4, "inconclusive": 2, "equivalent": 4}
    assert regressed.worst
    assert (regressed.worst.scenario, regressed.worst.metric) == ("browse", "service_p99")
    assert regressed.measured
    assert nothing.worst
    assert nothing.worst.estimate is None


def test_chains_come_back_as_they_were_kept_in_order_of_measuring(warehouse: Warehouse) -> None:
    rows = chained()
    for day, (key, mine) in {None: ("c", rows[:4]), 1: ("b", rows[4:8]), 2: ("a", rows[8:12])}.items():
        named = keep(warehouse, replace(regression(), baseline=key, candidate=f"{key}2"), day)
        warehouse.replace_comparison(named, {"release_chain": chain_table(mine, named)})
    assert kept_chains(warehouse) == rows[:12], "without a time it is the oldest, as on the index"
