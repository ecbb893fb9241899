"""What another policy makes of the same runs: each reason at its gate, the limits that differ, the command."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from perf_pipeline.cli import main
from perf_pipeline.gates.evidence import RunEvidence
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.policy_diff import PolicyDiff, changed_limits, diff_judgements
from perf_pipeline.report import policy_table
from tests.recorded_runs import write_run
from tests.simulated_runs import campaign, policy

POLICIES = Path(__file__).parents[1] / "perf_pipeline" / "gates" / "policies"


def diff(runs: Sequence[RunEvidence], before: Policy, after: Policy) -> PolicyDiff:
    judged = [judge(runs, "1.0", "1.1", limits) for limits in (before, after)]
    return diff_judgements(*judged, tuple(changed_limits(before, after)))


def shown(found: PolicyDiff, width: int = 120) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(policy_table.render(found))
    return captured.get()


def test_the_same_policy_changes_nothing() -> None:
    found = diff(campaign(), policy(), policy())
    assert found.verdicts == () and found.limits == () and found.compared == 12
    text = shown(found)
    assert "0 of 12 verdicts change." in text and "set no limit differently" in text


def test_a_narrower_zone_changes_verdicts_at_gate_3() -> None:
    narrow = policy(change__zone__client_latency=0.01)
    found = diff(campaign(run_cv=0.02), policy(), narrow)
    (limit,) = found.limits
    assert (limit.limit, limit.before, limit.after) == ("change.zone.client_latency", 0.1, 0.01)
    assert {(one.after.metric, one.before.verdict, one.after.verdict) for one in found.verdicts} == {
        ("client_latency", "equivalent", "inconclusive")
    }
    assert found.verdicts[0].reasons[0] == "Gate 3: the zone is -1.0 % to +1.0 %, and was -9.1 % to +10.0 %"
    assert found.moves == {("equivalent", "inconclusive"): 2}


def test_runs_that_one_policy_sets_aside_are_the_reason_at_gate_1() -> None:
    throttled = {
        run.run_id for run in campaign() if (run.scenario, run.version) == ("browse", "1.1") and run.repeat > 1
    }
    runs = [replace(run, throttled_share=0.2 if run.run_id in throttled else run.throttled_share) for run in campaign()]
    lenient = policy(run_validity__throttling__max_share=0.5)
    for before, after, how in ((lenient, policy(), "no longer compares"), (policy(), lenient, "now compares")):
        found = diff(runs, before, after)
        assert {one.after.scenario for one in found.verdicts} == {"browse"}
        for one in found.verdicts:
            assert one.reasons[0].startswith(f"Gate 1: {how} 4 runs (")
            assert "throttled" in one.reasons[0]
            assert "not comparable" in (one.before.verdict, one.after.verdict)


def test_repeats_that_one_policy_refuses_are_the_reason_at_gate_2() -> None:
    strict = policy(repeat_agreement__carried_cv=None, repeat_agreement__floor_share_of_zone=0.01)
    found = diff(campaign(run_cv=0.05, repeats=8), policy(), strict)
    refused = [one for one in found.verdicts if one.after.verdict == "not comparable"]
    assert refused
    assert any("Gate 2: now refuses the repeats of 1." in reason for one in refused for reason in one.reasons)
    back = diff(campaign(run_cv=0.05, repeats=8), strict, policy())
    assert any("Gate 2: no longer refuses" in reason for one in back.verdicts for reason in one.reasons)


def test_too_few_repeats_to_say_are_the_reason_at_gate_2_where_a_policy_refuses_them() -> None:
    found = diff(campaign(run_cv=0.045, repeats=5), policy("v2.18"), policy())
    reasons = [reason for one in found.verdicts for reason in one.reasons]
    assert any(
        "no longer refuses the repeats of 1." in one and "(too few to say: log Wasserstein" in one for one in reasons
    )


def test_degrees_of_freedom_that_were_lent_are_said_at_gate_3() -> None:
    runs = campaign(seed=4, scenarios=[f"s{number}" for number in range(12)], run_cv=0.045)
    found = diff(runs, policy(change__moderation__enabled=False), policy())
    assert found.verdicts
    reasons = [reason for one in found.verdicts for reason in one.reasons]
    assert any("of them lent by other scenarios" in reason and "and was" in reason for reason in reasons)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_is_aligned_and_fits(width: int) -> None:
    found = diff(campaign(run_cv=0.02), policy(), policy(change__zone__client_latency=0.01))
    lines = shown(found, width).splitlines()
    assert max(map(len, lines)) <= width
    (heading,) = (line for line in lines if line.startswith("scenario"))
    rows = [line for line in lines if "client latency" in line and "equivalent" in line]
    assert len(rows) == 2
    assert {row.index("client latency") for row in rows} == {heading.index("metric")}
    assert "Gate 3: the zone is" in " ".join(" ".join(lines).split())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["policy", "diff", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "1.0.0__2.0.0"
    for version, slower in (("1.0.0", 1.0), ("2.0.0", 1.3)):
        for repeat in (1, 2, 3):
            write_run(folder, f"{version}-browse-r{repeat:02d}", seed=repeat, slower=slower)
    return folder


def test_the_command_reads_the_versions_from_a_stored_comparison_and_exits_as_b_would(stored: Path) -> None:
    wide = stored.parent / "wide.yaml"
    text = (POLICIES / "default.yaml").read_text()
    wide.write_text(text.replace("client_latency: 0.10", "client_latency: 0.60", 1))
    assert wide.read_text() != text
    result = run("default", wide, stored, "--json")
    answer = json.loads(result.output)
    assert answer["before"]["decision"]["answer"] == "regression"
    (changed,) = [one for one in answer["verdicts"] if one["metric"] == "client_latency"]
    assert changed["before"]["verdict"] == "regression" and changed["after"]["verdict"] == "inconclusive"
    assert changed["reasons"][0].startswith("Gate 3: the zone is ")
    assert answer["limits"] == [{"limit": "change.zone.client_latency", "before": 0.1, "after": 0.6}]
    assert run(wide, "default", stored).exit_code == 1
    assert result.exit_code == answer["after"]["decision"]["exit_code"]


def test_wrong_questions_are_refused(stored: Path) -> None:
    result = run("default", "nothing", stored)
    assert result.exit_code == 2 and "neither a built-in policy nor a file" in result.output
    other = stored.rename(stored.parent / "runs")
    result = run("default", "v2.18", other)
    assert result.exit_code == 2 and "<baseline>__<candidate>" in result.output
    assert run("default", "v2.18", other, "--baseline", "1.0.0", "--candidate", "2.0.0").exit_code in (0, 1)
    result = run("default", "v2.18", other, "--baseline", "1.0.0", "--candidate", "3.0.0")
    assert result.exit_code == 2 and "no run is of version 3.0.0" in result.output
