"""The order of runs: complete blocks, random, balanced, the same for the same seed."""

from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_pipeline.plan import Plan
from perf_pipeline.replay.schedule import derived_seed, schedule_runs
from tests.captured_requests import small_plan


def plan_of(folder: Path, scenarios: int, repeats: int, seed: int) -> Plan:
    named = [{"name": f"s{number}", "rate_per_s": 1} for number in range(scenarios)]
    return small_plan(folder, scenarios=named, schedule={"repeats": repeats, "seed": seed})


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(scenarios=st.integers(1, 4), repeats=st.integers(2, 9), seed=st.integers(0, 1000))
def test_blocks_are_complete_and_neither_version_is_favoured(
    tmp_path: Path, scenarios: int, repeats: int, seed: int
) -> None:
    runs = schedule_runs(plan_of(tmp_path, scenarios, repeats, seed), "1.0", "1.1")
    assert [run.position for run in runs] == list(range(1, 2 * scenarios * repeats + 1))
    assert len({run.run_id for run in runs}) == len(runs)
    first = Counter()
    for block in range(1, repeats + 1):
        inside = [run for run in runs if run.block == block]
        assert Counter((run.version, run.scenario) for run in inside) == Counter(
            (version, f"s{number}") for version in ("1.0", "1.1") for number in range(scenarios)
        )
        assert [run.position for run in inside] == list(range(inside[0].position, inside[0].position + len(inside)))
        for one, other in zip(inside[::2], inside[1::2], strict=True):
            assert one.scenario == other.scenario
            assert one.seed == other.seed
            first[one.scenario, one.version] += 1
    for number in range(scenarios):
        assert abs(first[f"s{number}", "1.0"] - first[f"s{number}", "1.1"]) <= repeats % 2


def test_the_order_is_a_function_of_the_plan(tmp_path: Path) -> None:
    runs = schedule_runs(plan_of(tmp_path, 2, 5, 1), "1.0", "1.1")
    assert runs == schedule_runs(plan_of(tmp_path, 2, 5, 1), "1.0", "1.1")
    orders = {
        tuple(run.run_id for run in schedule_runs(plan_of(tmp_path, 2, 5, seed), "1.0", "1.1")) for seed in range(20)
    }
    assert len(orders) == 20
    # Written down, so that another Python or a change of the code does not silently move every order.
    assert [run.run_id for run in runs[:6]] == [
        "1.0-s0-r01", "1.1-s0-r01", "1.1-s1-r01", "1.0-s1-r01", "1.0-s1-r02", "1.1-s1-r02",
    ]  # fmt: skip
    assert runs[0].to_json()["seed"] == derived_seed(1, "s0", 1)


def test_more_repeats_go_on_after_the_order_of_fewer(tmp_path: Path) -> None:
    """Else the stored order would not be the one in which the runs that are there were measured."""
    fewer = schedule_runs(plan_of(tmp_path, 3, 3, 1), "1.0", "1.1")
    more = schedule_runs(plan_of(tmp_path, 3, 8, 1), "1.0", "1.1")
    assert more[: len(fewer)] == fewer


def test_seeds_differ_by_each_of_their_parts() -> None:
    assert len({derived_seed(1, "a", 2), derived_seed(1, "a2"), derived_seed(2, "a", 2), derived_seed(1, "b", 2)}) == 4
    assert 0 <= derived_seed(7) < 2**32


def test_an_arm_of_the_baseline_against_itself_moves_no_other_run(tmp_path: Path) -> None:
    named = [{"name": "s0", "rate_per_s": 1}, {"name": "s1", "rate_per_s": 1}]
    plain = schedule_runs(small_plan(tmp_path / "a", scenarios=named, schedule={"repeats": 6}), "1.0", "1.1")
    armed = schedule_runs(
        small_plan(tmp_path / "b", scenarios=named, schedule={"repeats": 6, "aa_arm": True}), "1.0", "1.1"
    )
    main = [run.run_id for run in armed if run.arm == "main"]
    assert main == [run.run_id for run in plain]
    arm = [run for run in armed if run.arm == "aa"]
    assert {run.version for run in arm} == {"1.0"}
    assert sorted(run.run_id for run in arm) == [f"1.0-s{n}-aa-r{r:02d}" for n in (0, 1) for r in range(1, 7)]
    by_id = {run.run_id: run for run in armed}
    for run in arm:
        pair = [by_id[f"{version}-{run.scenario}-r{run.repeat:02d}"] for version in ("1.0", "1.1")]
        assert {run.seed, run.block} == {pair[0].seed, pair[0].block} == {pair[1].seed, pair[1].block}
        assert abs(pair[0].position - pair[1].position) == 1, "the arm never parts the two versions"
    before = sum(run.position < by_id[f"1.0-{run.scenario}-r{run.repeat:02d}"].position for run in arm)
    assert before == 6, "equally often before and after the versions"
