"""Campaigns of a plan: the right ones are asked for their noise, and a plan says what it can see."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result

from perf_pipeline import campaigns
from perf_pipeline.campaigns import earlier_campaigns, noise_of_plan
from perf_pipeline.cli import main
from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import RunEvidence
from perf_pipeline.judge import load_policy
from perf_pipeline.lab.run_directory import find_runs
from perf_pipeline.metrics.extract import extract_runs, read_metrics, write_metrics
from perf_pipeline.plan import Plan
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import small_plan
from tests.recorded_runs import write_run


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "objects")


def measured(store: LocalObjectStore, folder: Path, comparison: str, plan: str, day: int) -> None:
    """A stored comparison of two versions, measured so many days after the first."""
    runs = folder / comparison
    for number, version in enumerate(comparison.split("__")):
        for repeat in (1, 2, 3):
            write_run(runs, f"{version}-browse-r{repeat:02d}", seed=10 * number + repeat, plan=plan)
    tables = extract_runs(find_runs(runs))
    place = tables.run.schema.get_field_index("hold_start")
    later = pc.add(tables.run["hold_start"], timedelta(days=day))
    later = later.cast(tables.run.schema.field(place).type)
    write_metrics(store, comparison, replace(tables, run=tables.run.set_column(place, "hold_start", later)))


def versions(found: list) -> list[set[str]]:
    return [{run.version for run in runs if isinstance(run, RunEvidence)} for runs in found]


def test_earlier_campaigns_are_those_of_the_plan_the_latest_first(store: LocalObjectStore, tmp_path: Path) -> None:
    plans = [("1__2", "p"), ("2__3", "other"), ("3__4", "p"), ("4__5", "p"), ("5__6", "p")]
    for day, (comparison, plan) in enumerate(plans):
        measured(store, tmp_path / "runs", comparison, plan, day)
    assert versions(earlier_campaigns(store, "p", None)) == [{"5", "6"}, {"4", "5"}, {"3", "4"}, {"1", "2"}]
    assert versions(earlier_campaigns(store, "p", None, but="5__6"))[0] == {"4", "5"}
    began = pc.min(read_metrics(store, "4__5").run["hold_start"]).as_py()
    assert versions(earlier_campaigns(store, "p", began)) == [{"3", "4"}, {"1", "2"}], "no campaign knows later ones"
    assert earlier_campaigns(store, None, None) == []


def test_only_the_latest_campaigns_are_asked(
    store: LocalObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaigns, "EARLIER_CAMPAIGNS", 1)
    for day, comparison in enumerate(["1__2", "2__3"]):
        measured(store, tmp_path / "runs", comparison, "p", day)
    assert versions(earlier_campaigns(store, "p", None)) == [{"2", "3"}]


def power(plan: Plan, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", "power", str(plan.path), *arguments])


def test_a_plan_that_was_never_measured_says_how_to_learn_of_its_noise(store: LocalObjectStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--pilot, or assume a coefficient of variation with --cv"):
        noise_of_plan(store, small_plan(tmp_path / "plan"), load_policy("default"))


def smallest(plan: Plan, cv: str) -> float:
    result = power(plan, "--cv", cv, "--json")
    assert result.exit_code == 0, result.output
    sight = next(one for one in json.loads(result.output)["sights"] if one["metric"] == "client_latency")
    return sight["smallest_detectable"]


def test_less_noise_and_more_repeats_see_more(tmp_path: Path) -> None:
    few = small_plan(tmp_path / "few", schedule={"repeats": 3})
    many = small_plan(tmp_path / "many", schedule={"repeats": 12})
    assert 0.10 < smallest(many, "2") < smallest(few, "2") < smallest(few, "5")


def test_looks_are_paid_for(tmp_path: Path) -> None:
    fixed = small_plan(tmp_path / "fixed", schedule={"repeats": 12})
    looks = small_plan(tmp_path / "looks", schedule={"looks": [5, 8, 12]})
    assert smallest(fixed, "3") < smallest(looks, "3") < 1.1 * smallest(fixed, "3")
    assert "looks at 5, 8, 12 repeats" in power(looks, "--cv", "3").output


def test_a_pilot_and_the_latest_campaign_say_the_same(
    store: LocalObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path / "plan")
    measured(store, tmp_path / "runs", "1.0__1.1", plan.hash, 0)
    monkeypatch.setenv("PERF_PIPELINE_STORE", str(store.root))
    pilot = json.loads(power(plan, "--pilot", str(tmp_path / "runs"), "--json").output)
    latest = json.loads(power(plan, "--json").output)
    assert pilot["sights"] == latest["sights"] != []
    assert pilot["noise"] != latest["noise"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cv", "3", "--pilot", "runs"], "two sources of noise"),
        (["--cv", "0"], "--cv"),
        (["--pilot", "nowhere"], "is not a folder"),
        (["--cv", "3", "--policy", "none-such"], "policy none-such"),
    ],
)
def test_a_wrong_question_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = power(small_plan(tmp_path / "plan"), *arguments)
    assert result.exit_code == 2
    assert said in result.output
