"""Campaigns in looks, in pairs and with an A/A arm, where the answer is beyond doubt."""

import pytest

from perf_pipeline.simulation import designs, experiments
from tests.simulated_runs import policy


@pytest.fixture(autouse=True)
def small_campaigns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "SCENARIOS", 9)


def test_what_is_clear_at_the_first_look_is_measured_no_more() -> None:
    counts = designs.looks_at_latency(1, policy(), change=0.0, run_cv=0.005)
    assert counts["runs spent"] == (9 * 5, 9 * 12)
    assert counts["answered"] == (9, 9)


def test_what_stays_open_is_measured_to_the_last_look() -> None:
    counts = designs.looks_at_latency(1, policy(), change=0.1, run_cv=0.02)
    spent, of = counts["runs spent"]
    assert spent > 0.8 * of


def test_pairs_answer_where_blocks_drown_the_difference() -> None:
    counts = designs.paired(1, policy(), block=0.1)
    assert counts["equivalent"][0] >= counts["equivalent without pairs"][0] + 6


def test_an_arm_that_the_harness_slows_down_is_found() -> None:
    assert designs.arm_against_itself(1, policy(), bias=0.3)["moved"] == (1, 1)
    assert designs.arm_against_itself(1, policy(), bias=0.0)["moved"] == (0, 1)
