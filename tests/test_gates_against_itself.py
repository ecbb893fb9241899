from dataclasses import replace

import pytest

from perf_pipeline.gates.evidence import RunEvidence
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.verdict import QuestionError, judge
from tests.simulated_runs import campaign, policy

SCENARIOS = ("browse", "search", "login", "cart")


def second_arm(seed: int, **how: object) -> list[RunEvidence]:
    """The baseline once more, under a run_id of its own."""
    runs = campaign(seed, scenarios=SCENARIOS, **how)  # type: ignore[arg-type]
    return [
        replace(run, version="1.0", arm="aa", run_id=f"aa-{run.run_id}", service_digest="digest of 1.0")
        for run in runs
        if run.version == "1.1"
    ]


def judged(arm: list[RunEvidence], **how: object) -> Judgement:
    return judge([*campaign(1, scenarios=SCENARIOS, **how), *arm], "1.0", "1.1", policy())  # type: ignore[arg-type]


def test_without_an_arm_there_is_none() -> None:
    assert judged([]).aa_arm is None


def test_a_quiet_arm_is_known_and_changes_nothing_else() -> None:
    found = judged(second_arm(2, run_cv=0.01))
    assert found.aa_arm is not None
    assert found.aa_arm.status == "quiet"
    assert found.decision.answer == "no regression"
    assert "1.0 against itself (A/A) was quiet in 24 comparisons." in found.decision.known
    without = judged([])
    assert (found.verdicts, found.runs, found.pooled) == (without.verdicts, without.runs, without.pooled)
    assert {run.version for run in found.aa_arm.runs} == {"1.0", "1.0 (A/A)"}
    assert len(found.aa_arm.verdicts) == len(found.verdicts)


def test_an_arm_that_moved_in_a_verdict_is_said_before_anything_else_and_nothing_is_released() -> None:
    found = judged(second_arm(2, shifts={"service_memory": 0.2}))
    assert found.aa_arm is not None
    assert found.aa_arm.status == "moved"
    assert found.decision.answer == "not enough evidence"
    assert found.decision.headline.startswith(
        "1.0 against itself (A/A) moved in 4 of 24 comparisons: service_memory in "
    )
    assert "Something other than the version changed. Not enough evidence" in found.decision.headline


def test_a_regression_stays_one_and_is_said_after_the_arm() -> None:
    found = judged(second_arm(2, shifts={"service_memory": 0.2}), shifts={"client_latency": 0.5})
    assert (found.decision.answer, found.decision.exit_code) == ("regression", 1)
    assert found.decision.headline.startswith("1.0 against itself (A/A) moved")
    assert "1.1 is worse than 1.0" in found.decision.headline


def test_an_arm_that_crept_everywhere_moved() -> None:
    found = judged(second_arm(2, shifts={"client_latency": 0.045}, run_cv=0.005), run_cv=0.005)
    assert found.aa_arm is not None
    assert {verdict.verdict for verdict in found.aa_arm.verdicts} <= {"equivalent", "inconclusive", "not comparable"}
    assert found.aa_arm.status == "moved"
    assert "moved: client_latency at p50 changed by +4." in found.aa_arm.message


def test_a_noisy_arm_cannot_tell_and_blocks_nothing() -> None:
    found = judged(second_arm(2, run_cv=0.05))
    assert found.aa_arm is not None
    assert found.aa_arm.status == "cannot tell"
    assert found.decision.answer == "no regression"
    assert any(text.startswith("1.0 against itself (A/A) may have moved.") for text in found.decision.not_known)


def test_an_arm_whose_runs_all_failed_could_not_be_compared() -> None:
    found = judged([replace(run, failure="died") for run in second_arm(2)])
    assert found.aa_arm is not None
    assert (found.aa_arm.status, found.aa_arm.message) == ("cannot tell", "could not be compared")


def test_an_arm_alone_is_no_version() -> None:
    only = [run for run in campaign(1, scenarios=SCENARIOS) if run.version == "1.1"]
    with pytest.raises(QuestionError, match=r"no run of 1\.0"):
        judge([*only, *second_arm(2)], "1.0", "1.1", policy())
