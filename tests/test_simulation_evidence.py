"""What the gates are given: the truth plus the noise of measuring, and every cause as Gate 1 and Gate 2 see it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from perf_pipeline.gates.evidence import METRICS, PERCENTILES, SHAPE_POINTS, Design, LatencySample, Missing, RunEvidence
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.verdict import judge
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey, Step, named
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.run_effects import RunEffects, Seconds, Shift
from perf_pipeline.simulation.scenario import Errors, Latency, Scenario, every_metric
from perf_pipeline.simulation.shapes import Bimodal, HeavyTail, LogNormal, Shape
from tests.simulated_runs import policy

SHAPES = pytest.mark.parametrize("shape", [LogNormal(0.4), HeavyTail(0.3, 0.1), Bimodal(0.3, 0.8, 0.2)], ids=str)
QUIET = RunEffects(level=0.0)
ODD = RunKey("1.1", "everything", 3)


def client(run: RunEvidence) -> LatencySample:
    sample = run.metrics["client_latency"]
    assert isinstance(sample, LatencySample)
    return sample


def campaign(incident: Incident | None = None, **changed: object) -> Campaign:
    return Campaign((every_metric(),), incidents={ODD: incident} if incident else {}, **changed)


def judged(campaign: Campaign, seed: int = 1) -> Judgement:
    return judge(simulate(campaign, seed), "1.0", "1.1", policy())


@SHAPES
def test_quantiles_are_those_of_so_many_independent_requests(shape: Shape) -> None:
    """Over runs without effects of their own: the mean is the truth, the scatter that of order statistics."""
    requests = 2000
    scenario = Scenario("s", requests / 240, {"client_latency": Latency(10.0, shape, QUIET)})
    runs = simulate(Campaign(named(scenario, 100), repeats=5), 1, with_levels=False)
    logs = np.stack([client(run).log_quantiles for run in runs])
    rng = np.random.default_rng(2)
    drawn = np.quantile(shape.curve(rng.standard_normal((1000, requests))), np.array(PERCENTILES) / 100, axis=1).T
    bias = logs.mean(axis=0) - np.log(10.0) - drawn.mean(axis=0)
    assert (np.abs(bias) < 0.2 * drawn.std(axis=0)).all()
    np.testing.assert_allclose(logs.std(axis=0), drawn.std(axis=0), rtol=0.15)
    assert np.corrcoef(logs[:, 9], logs[:, 10])[0, 1] == pytest.approx(
        np.corrcoef(drawn[:, 9], drawn[:, 10])[0, 1], abs=0.08
    )


def test_parts_of_a_run_scatter_twice_as_widely_as_the_whole() -> None:
    scenario = Scenario("s", 100.0, {"client_latency": Latency(10.0, LogNormal(0.4), QUIET)})
    runs = simulate(Campaign(named(scenario, 60)), 1, with_levels=False)
    whole = np.stack([client(run).shape for run in runs])
    for parts in ("half_shapes", "alternate_shapes"):
        first, second = np.stack([getattr(client(run), parts) for run in runs]).swapaxes(0, 1)
        np.testing.assert_allclose((first + second) / 2, whole, atol=0.02)
        middle = SHAPE_POINTS // 2
        assert (first - second)[:, middle].std() == pytest.approx(2 * whole[:, middle].std(), rel=0.2)


def test_seconds_that_vary_are_in_the_levels_and_broaden_the_distribution() -> None:
    latency = Latency(10.0, LogNormal(0.2), QUIET, Seconds(0.1, 0.0))
    runs = simulate(Campaign(named(Scenario("s", 2000.0, {"client_latency": latency}), 20)), 1)
    levels = np.stack([client(run).levels for run in runs])
    assert levels.shape == (200, 240)
    assert levels.std(axis=1).mean() == pytest.approx(0.1, rel=0.05)
    spread = np.stack([np.diff(client(run).log_quantiles[[1, 17]]) for run in runs]).mean()
    assert spread == pytest.approx(2 * ndtri(0.9) * np.hypot(0.2, 0.1), rel=0.01)


def test_what_is_not_described_is_absent_and_an_unfinished_run_has_nothing() -> None:
    only_latency = simulate(Campaign((Scenario("s", latencies={"client_latency": Latency(10.0)}),)), 1)
    missing = [metric for metric in METRICS if isinstance(only_latency[0].metrics[metric], Missing)]
    assert missing == [metric for metric in METRICS if metric != "client_latency"]
    failed = {run.run_id: run for run in simulate(campaign(Incident(failure="out of memory")), 1)}[ODD.run_id]
    assert failed.failure == "out of memory"
    assert all(isinstance(sample, Missing) for sample in failed.metrics.values())


def test_design_and_arm_are_carried() -> None:
    runs = simulate(campaign(design=Design(looks=(3, 5), paired=True), aa_arm=True), 1)
    assert {run.design for run in runs} == {Design(looks=(3, 5), paired=True)}
    assert [(run.version, run.arm) for run in runs[::5]] == [("1.0", "main"), ("1.1", "main"), ("1.0", "aa")]
    assert len({run.run_id for run in runs}) == 15


def test_without_a_cause_gate_1_passes_every_run() -> None:
    found = judged(campaign())
    assert {run.status for run in found.runs} == {"passed"}
    assert not [note for note in found.notes if "not measured" in note]


@pytest.mark.parametrize(
    ("incident", "check", "lost"),
    [
        (Incident(load_share=0.9), "achieved rate", "everything"),
        (Incident(failure="the service died"), "finished", "everything"),
        (Incident(environment={"kernel": "6.2"}), "environment", "everything"),
        (Incident(restart_at_share=0.5), "restart", "everything"),
        (Incident(build="another one"), "build", "everything"),
        (
            Incident(clock_offset_s=20.0),
            "clock",
            ("service_latency", "service_p99", "service_memory", "upstream_latency"),
        ),
        (Incident(drifts={"service_memory": 0.06}), "drift", "everything"),
        (Incident(throttled_share=0.2), "CPU throttling", ("service_latency", "service_p99")),
        (Incident(drifts={"client_latency": 0.08}), "drift", ("client_latency",)),
        (Incident(steps={"client_latency": Step(0.08)}), "step", ("client_latency",)),
        (
            Incident(scrape_share=0.7),
            "density",
            ("service_latency", "service_p99", "service_memory", "upstream_latency"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gate_1_finds_each_cause_in_the_run_that_it_befell(
    incident: Incident, check: str, lost: str | tuple[str, ...]
) -> None:
    found = {run.run_id: run for run in judged(campaign(incident)).runs}
    odd = found.pop(ODD.run_id)
    assert {run.status for run in found.values()} == {"passed"}
    assert any(check in one.check for one in odd.checks if one.status == "fail" and one.consequence != "none")
    if lost == "everything":
        assert odd.status == "set aside"
    else:
        assert (odd.status, odd.dropped_metrics) == ("metric dropped", lost)


def test_a_service_that_mostly_refuses_was_not_measured_serving() -> None:
    errors = {"http_error_rate": Errors(0.8)}
    runs = simulate(Campaign((replace(every_metric(), errors=errors),)), 1)
    assert runs[0].failed_share == pytest.approx(0.8, abs=0.01)
    assert all("client_latency" in run.dropped_metrics for run in judge(runs, "1.0", "1.1", policy()).runs)


def test_gate_2_names_an_outlier_repeat() -> None:
    shifted = Incident(shifts={"client_latency": Shift(level=0.15), "service_memory": Shift(level=0.15)})
    found = [one for one in judged(campaign(shifted)).agreement if one.version == "1.1"]
    named_runs = {one.metric: one.most_influential_run for one in found}
    assert named_runs["client_latency"] == named_runs["service_memory"] == ODD.run_id


def test_an_environment_that_differs_between_the_sides_makes_all_incomparable() -> None:
    verdicts = judged(campaign(candidate_environment={"cpu_model": "model B"})).verdicts
    assert {one.verdict for one in verdicts} == {"not comparable"}


def test_changes_that_are_put_in_are_found() -> None:
    scenario = every_metric(
        effects=RunEffects(level=0.01),
        errors=Errors(0.0005),
        changes={metric: Shift(level=0.2) for metric in ("client_latency", "service_latency", "service_memory")},
        rate_changes={"http_error_rate": 0.01, "graphql_error_rate": 0.01},
    )
    found = judge(simulate(Campaign((replace(scenario, rate_per_s=500.0),)), 1), "1.0", "1.1", policy())
    verdicts = {one.metric: one.verdict for one in found.verdicts}
    assert verdicts.pop("upstream_latency") == "equivalent"
    assert set(verdicts.values()) == {"regression"}


def test_errors_are_absent_rare_or_in_bursts() -> None:
    kinds = {"none": Errors(), "rare": Errors(1e-4), "bursts": Errors(0.01, 0.5)}
    runs = {
        name: [
            run.metrics["http_error_rate"]
            for run in simulate(Campaign(named(Scenario("s", errors={"http_error_rate": errors}), 40)), 1)
        ]
        for name, errors in kinds.items()
    }
    counts = {name: np.array([sample.errors for sample in samples]) for name, samples in runs.items()}
    assert not counts["none"].any()
    assert counts["rare"].var() / counts["rare"].mean() == pytest.approx(1, abs=0.2)
    assert counts["bursts"].var() / counts["bursts"].mean() > 50
