"""The first seed's campaign: what its article found at Gate 1, and its tables beside ours."""

import pytest

from perf_pipeline.gates.verdict import judge
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.seed_campaign import SEED, beside_the_article, seed_campaign
from tests.simulated_runs import policy


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """Each line of the table by its label: what both policies find."""
    campaign = seed_campaign()
    runs = simulate(campaign, SEED)
    names = ("v2.18", "default")
    judged = {name: judge(runs, campaign.baseline, campaign.candidate, policy(name)) for name in names}
    return {line.label: {"article": line.article, **line.found} for line in beside_the_article(judged)}


def test_it_has_500_runs_of_50_scenarios() -> None:
    runs = [run for _, run in seed_campaign().runs()]
    assert len(set(runs)) == 500
    assert len({run.scenario for run in runs}) == 50


def test_gate_1_finds_what_the_article_found(found: dict[str, dict[str, str]]) -> None:
    for label, number in (("passed", "404"), ("kept, one metric dropped", "51"), ("set aside", "45")):
        assert found[f"Gate 1: {label}"] == {"article": number, "v2.18": number, "default": number}


def test_nothing_changed_and_neither_policy_says_otherwise(found: dict[str, dict[str, str]]) -> None:
    for label in ("client latency: regression", "client latency: improvement", "other metrics: regression"):
        assert found[label] == {"article": "0", "v2.18": "0", "default": "0"}


@pytest.mark.parametrize("name", ["article", "v2.18", "default"])
def test_the_verdicts_on_client_latency_are_those_of_50_comparisons(name: str, found: dict) -> None:
    verdicts = ("equivalent", "inconclusive", "not comparable", "regression", "improvement")
    assert sum(int(found[f"client latency: {verdict}"][name]) for verdict in verdicts) == 50
