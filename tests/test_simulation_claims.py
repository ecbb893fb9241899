"""The claims as a table: complete, reproducible, and on the page that `bench/calibration.py` writes."""

import pytest

from perf_pipeline.files import project_file
from perf_pipeline.simulation import experiments
from perf_pipeline.simulation.claims import BESIDE, CLAIMS, PEER_COLUMNS, PEER_ROWS, Claim, Experiment, every_experiment
from perf_pipeline.simulation.rates import Rate, rates
from tests.simulated_runs import policy

PAGE = project_file("docs") / "calibration.md"


def rate(value: float, error: float = 0.001) -> Rate:
    return Rate(value * 1000, 1000, 10, error)


@pytest.fixture(autouse=True)
def small_campaigns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked, not how precisely."""
    monkeypatch.setattr(experiments, "SCENARIOS", 9)
    monkeypatch.setattr(experiments, "FEW_SCENARIOS", 3)


@pytest.mark.parametrize("experiment", every_experiment(), ids=lambda one: one.name)
def test_every_experiment_counts_what_is_asked_of_it(experiment: Experiment) -> None:
    pairs = [pair for claim in CLAIMS for pair in claim.asked] + [pair for pairs in BESIDE.values() for pair in pairs]
    asked = {what for one, what in pairs if one == experiment}
    if experiment in PEER_COLUMNS.values():
        asked |= set(PEER_ROWS)
    counts = experiment.campaign(0, policy())
    assert asked and asked <= counts.keys()
    assert all(0 <= hits <= tries and tries for hits, tries in counts.values())


def test_a_campaign_of_an_experiment_is_the_same_each_time() -> None:
    experiment = every_experiment()[0]
    assert experiment.campaign(3, policy()) == experiment.campaign(3, policy()) != experiment.campaign(4, policy())


def test_names_tell_experiments_apart() -> None:
    names = [one.name for one in every_experiment()]
    assert len(set(names)) == len(names)


def test_a_claim_holds_within_its_bounds_and_says_them() -> None:
    between, most, least = (
        Claim("", "", (), **bounds)
        for bounds in ({"at_least": 0.935, "at_most": 0.97}, {"at_most": 0.005}, {"at_least": 0.9})
    )
    assert [one.required for one in (between, most, least)] == ["93.5 to 97 %", "<= 0.5 %", ">= 90 %"]
    assert between.holds([rate(0.95), rate(0.936)])
    assert not between.holds([rate(0.95), rate(0.98)])
    assert not most.holds([rate(0.0055)])
    assert most.holds([rate(0.0055)], errors=1)
    assert most.holds([rate(0.0)], errors=-1) and not most.holds([rate(0.0045)], errors=-1)
    assert least.holds([rate(1.0)])


def test_a_bound_that_is_kept_by_less_than_the_error_is_not_shown() -> None:
    never, often = Claim("", "", (), at_most=0.01), Claim("", "", (), at_least=0.9)

    def without_event(campaigns: int) -> list[Rate]:
        return [rates({"what": (0.0, 1.0)} for _ in range(campaigns))["what"]]

    assert [never.answer(without_event(campaigns)) for campaigns in (20, 40, 200, 300)] == [
        *("not shown",) * 3,
        "yes",
    ]
    assert never.answer([rate(0.0), rate(0.011, error=0.005)]) == "no"
    assert [often.answer([rate(value, error=0.01)]) for value in (0.92, 0.905, 0.895)] == ["yes", "not shown", "no"]


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not in this checkout")
def test_the_page_says_of_each_claim_what_its_numbers_show() -> None:
    """From the page's own numbers, but for lines whose rounding leaves it open."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    lines = {row[0]: row for row in rows if len(row) == 7}
    for claim in CLAIMS:
        *_, measured, error, _, answer = lines[claim.text]
        values = [float(value) / 100 for value in measured.removesuffix(" %").split("/")]
        distance = float(error.strip("± %")) / 100
        if claim.answer([rate(value, 1.2 * distance) for value in values]) == "yes":
            assert answer == "yes", claim.text
        if all(value in (0.0, 1.0) for value in values):
            assert answer == claim.answer([rate(value, distance) for value in values]), claim.text
    answers = [lines[claim.text][-1] for claim in CLAIMS]
    text = PAGE.read_text(encoding="utf-8")
    assert f"{answers.count('yes')} of {len(CLAIMS)} lines are shown to hold" in text
    assert f"{answers.count('not shown')} are not shown" in text


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not in this checkout")
def test_the_page_has_every_claim_and_every_peer() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [claim.text for claim in CLAIMS if f"| {claim.text} | {claim.nominal} | {claim.required} |" not in text]
    assert not missing, "write docs/calibration.md again: python bench/calibration.py"
    assert all(f"| {name} |" in text or f"| **{name}** |" in text for name in PEER_ROWS)


def test_rates_of_an_experiment_come_from_its_campaigns() -> None:
    experiment = every_experiment()[-1]
    found = rates(experiment.campaign(number, policy()) for number in range(2))
    assert {one.campaigns for one in found.values()} == {2}
