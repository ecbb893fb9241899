"""Checks beside the assets on judged rows: what is wrong is an error, what is not known a warning, and never a pass."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from assets.checks import CHECKS
from assets.jobs import COMPARISON
from assets.partitions import COMPARISON_PARTITIONS
from assets.resources import PlanResource, StoreResource, TokenResource, WarehouseResource
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report.tables import judgement_tables
from perf_pipeline.warehouse import Warehouse, table_schema
from tests import report_judgements

KEY, ANOTHER = "1.0.0__1.1.0", "1.0.0__1.0.1"
Found = dict[str, dg.AssetCheckEvaluation]
WRONG, NOT_KNOWN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Callable[..., Found]]:
    """Runs all checks, and nothing else, on a warehouse that holds these tables."""
    path = tmp_path / "warehouse.duckdb"

    def run(**tables: pa.Table) -> Found:
        warehouse = Warehouse(path)
        warehouse.replace_comparison(KEY, tables, drop_others=True)
        # What is known of another comparison is nothing about this one.
        warehouse.replace_comparison(ANOTHER, judgement_tables(report_judgements.no_regression(), ANOTHER))
        defs = dg.Definitions(
            assets=COMPARISON,
            asset_checks=CHECKS,
            jobs=[dg.define_asset_job("checks", selection=dg.AssetSelection.checks(*CHECKS))],
            resources={
                "plan": PlanResource(), "store": StoreResource(), "tokens": TokenResource(),
                "warehouse": WarehouseResource(path=str(path)),
            },
        )  # fmt: skip
        config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = defs.resolve_job_def("checks").execute_in_process(
            instance=instance, tags={"dagster/partition": KEY}, run_config=config, raise_on_error=False
        )
        found = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
        assert len(found) == len(CHECKS)
        return found

    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [KEY])
        yield run


def rows(table: str, *given: dict) -> pa.Table:
    """A table of these rows; columns that are not given are null, as no check reads them."""
    schema = table_schema(table)
    return pa.Table.from_pylist([{**dict.fromkeys(schema.names), **row} for row in given], schema)


def judged(judgement: Judgement) -> dict[str, pa.Table]:
    return judgement_tables(judgement, KEY)


def said(evaluation: dg.AssetCheckEvaluation) -> tuple[bool, dg.AssetCheckSeverity, str]:
    return evaluation.passed, evaluation.severity, evaluation.description or ""


def test_what_is_known_to_be_well_passes(check: Callable[..., Found]) -> None:
    sides = rows("run", *(run(version, "browse") for version in ("1.0.0", "1.1.0")))
    chain = rows("release_chain", step("browse", "equivalent"))
    found = check(run=sides, release_chain=chain, **judged(report_judgements.no_regression()))
    assert {name for name, evaluation in found.items() if not evaluation.passed} == set()


def test_where_nothing_was_judged_no_gate_passes(check: Callable[..., Found]) -> None:
    found = check()
    nowhere = "2 sides without a complete run: 1.0.0 in any scenario, 1.1.0 in any scenario"
    assert said(found.pop("every_side_was_measured")) == (False, WRONG, nowhere)
    for name in found:
        passed, severity, description = said(found[name])
        assert (passed, severity) == (False, NOT_KNOWN), name
        assert description.startswith("Not known: "), name


def test_a_regression_is_wrong(check: Callable[..., Found]) -> None:
    found = check(**judged(report_judgements.regression()))
    assert said(found["no_regression"]) == (False, WRONG, "4 regressions")
    assert found["negative_control_is_quiet"].passed


def test_without_enough_evidence_no_regression_is_not_known(check: Callable[..., Found]) -> None:
    judgement = report_judgements.not_enough_evidence()
    found = check(**judged(judgement))
    assert said(found["no_regression"]) == (False, NOT_KNOWN, judgement.decision.headline)


def test_repeats_that_disagree_are_wrong(check: Callable[..., Found]) -> None:
    found = check(**judged(report_judgements.not_enough_evidence()))
    assert said(found["repeats_agree"]) == (False, WRONG, "1 metrics whose repeats disagree")


def test_repeats_that_are_too_few_to_agree_are_not_known(check: Callable[..., Found]) -> None:
    whole = report_judgements.no_regression()
    too_few = tuple(replace(item, status="too few to say") for item in whole.agreement)
    found = check(**judged(replace(whole, agreement=too_few)))
    assert said(found["repeats_agree"])[:2] == (False, NOT_KNOWN)
    found = check(**judged(replace(whole, agreement=(*too_few[1:], whole.agreement[0]))))
    assert found["repeats_agree"].passed


def test_a_run_that_was_set_aside_is_wrong(check: Callable[..., Found]) -> None:
    whole = report_judgements.no_regression()
    aside = replace(whole.runs[0], status="set aside", reason="achieved rate")
    found = check(**judged(replace(whole, runs=(aside, *whole.runs[1:]))))
    assert said(found["runs_are_valid"]) == (False, WRONG, "1 runs set aside")
    dropped = replace(whole.runs[0], status="metric dropped", reason="clock")
    assert check(**judged(replace(whole, runs=(dropped, *whole.runs[1:]))))["runs_are_valid"].passed


@pytest.mark.parametrize(
    ("status", "passed", "severity", "description"),
    [
        ("quiet", True, None, "The negative control did not move."),
        ("absent", True, None, "There is no negative control."),
        ("cannot tell", False, NOT_KNOWN, "Not known: upstream_latency said this"),
        ("moved", False, WRONG, "1 negative controls moved: the lab changed"),
    ],
)
def test_a_negative_control_is_quiet_when_it_is_known_to_be(
    check: Callable[..., Found], status: str, passed: bool, severity: dg.AssetCheckSeverity | None, description: str
) -> None:
    whole = report_judgements.no_regression()
    control = replace(whole.negative_control, status=status, message="said this")
    found = said(check(**judged(replace(whole, negative_control=control)))["negative_control_is_quiet"])
    assert found[0] == passed and found[2] == description
    assert severity is None or found[1] == severity


def run(version: str, scenario: str, status: str = "complete") -> dict:
    return {"run_id": f"{version}-{scenario}-{status}", "version": version, "scenario": scenario, "status": status,
            "repeat": 1, "block": 1, "sub_windows": 1, "environment": []}  # fmt: skip


def test_a_side_without_a_complete_run_is_wrong(check: Callable[..., Found]) -> None:
    failed = [run("1.0.0", "browse"), run("1.0.0", "browse", "failed"), run("1.1.0", "browse", "failed")]
    search = [run("1.1.0", "search"), run("1.0.0", "search")]
    for given, wrong in (
        (failed, "1 sides without a complete run: 1.1.0 in browse"),
        (failed[:1], "1 sides without a complete run: 1.1.0 in browse"),
        ([*failed[:1], *search[:1]], "2 sides without a complete run: 1.0.0 in search, 1.1.0 in browse"),
    ):
        found = check(run=rows("run", *given))
        assert said(found["every_side_was_measured"]) == (False, WRONG, wrong)
    found = check(run=rows("run", *failed, run("1.1.0", "browse"), *search))
    assert found["every_side_was_measured"].passed


def step(scenario: str, answer: str) -> dict:
    return {"scenario": scenario, "metric": "client_latency", "path": "chain", "from_version": "0.9.0",
            "to_version": "1.1.0", "steps": 2, "answer": answer, "reason": "", "zone_low": -0.1,
            "zone_high": 0.1}  # fmt: skip


def test_a_regression_over_the_chain_is_wrong(check: Callable[..., Found]) -> None:
    found = check(release_chain=rows("release_chain", step("browse", "regression"), step("search", "equivalent")))
    assert said(found["no_slow_regression"]) == (False, WRONG, "1 metrics regressed over the chain")
    found = check(release_chain=rows("release_chain", step("browse", "inconclusive"), step("search", "equivalent")))
    assert found["no_slow_regression"].passed


def test_a_chain_that_decides_nothing_is_not_known(check: Callable[..., Found]) -> None:
    open_steps = [step("browse", "inconclusive"), step("search", "not comparable")]
    assert said(check(release_chain=rows("release_chain", *open_steps))["no_slow_regression"])[:2] == (False, NOT_KNOWN)
