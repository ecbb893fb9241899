"""The description of a campaign: which runs it has and what befalls them."""

from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey, named
from perf_pipeline.simulation.scenario import Scenario


def test_runs_are_those_of_every_scenario_side_and_repeat() -> None:
    campaign = Campaign(named(Scenario("s"), 2), repeats=2, aa_arm=True)
    ids = [run.run_id for _, run in campaign.runs()]
    assert ids[:6] == [
        "1.0-s001-r01",
        "1.0-s001-r02",
        "1.1-s001-r01",
        "1.1-s001-r02",
        "1.0-aa-s001-r01",
        "1.0-aa-s001-r02",
    ]
    assert len(set(ids)) == 12


def test_an_incident_goes_before_the_side_and_the_side_before_the_campaign() -> None:
    odd = RunKey("1.1", "s", 1)
    campaign = Campaign(
        (Scenario("s"),),
        environment={"kernel": "6.1", "node": "a"},
        candidate_environment={"node": "b"},
        throttled_share=0.01,
        incidents={odd: Incident(environment={"kernel": "6.2"}, throttled_share=0.3)},
    )
    assert campaign.environment_of(odd) == {"kernel": "6.2", "node": "b"}
    assert campaign.environment_of(RunKey("1.0", "s", 1)) == {"kernel": "6.1", "node": "a"}
    assert (campaign.throttled(odd), campaign.throttled(RunKey("1.1", "s", 2))) == (0.3, 0.01)
