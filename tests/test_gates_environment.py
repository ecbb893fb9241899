from dataclasses import replace

from perf_pipeline.gates.environment import EnvironmentFindings, compare_environments, other_builds
from perf_pipeline.gates.evidence import RunEvidence
from tests.simulated_runs import campaign


def with_environments(*environments: dict[str, str]) -> list[RunEvidence]:
    """Runs of one scenario: the first half are the baseline's, the second half the candidate's."""
    runs = campaign(scenarios=["browse"], repeats=len(environments) // 2)
    return [replace(run, environment=environment) for run, environment in zip(runs, environments, strict=True)]


def compare(runs: list[RunEvidence], ignored: tuple[str, ...] = ()) -> EnvironmentFindings:
    return compare_environments(runs, "1.0", "1.1", ignored)


A, B = {"kernel": "6.1", "node": "n1"}, {"kernel": "6.8", "node": "n1"}


def test_equal_environments_have_nothing_to_say() -> None:
    assert compare(with_environments(A, A, A, A)) == EnvironmentFindings({}, {}, frozenset())


def test_a_run_elsewhere_is_named_with_the_key_that_differs() -> None:
    found = compare(with_environments(A, A, B, A, A, A))
    assert found.deviating == {
        "1.0-browse-r03": "environment differs from the scenario's other runs in kernel (6.8, not 6.1)"
    }
    assert not found.apart


def test_sides_that_share_no_environment_are_apart() -> None:
    found = compare(with_environments(A, A, B, B))
    assert found.apart == {"browse": "the sides ran in different environments: kernel (6.1, not 6.8) on the baseline"}
    assert not found.deviating


def test_the_shared_environment_that_keeps_most_of_the_poorer_side_is_the_common_one() -> None:
    found = compare(with_environments(A, A, A, B, B, A, B, B, B, B))
    assert set(found.deviating) == {"1.0-browse-r01", "1.0-browse-r02", "1.0-browse-r03", "1.1-browse-r01"}


def test_a_key_that_one_side_does_not_name_is_unknown_not_equal() -> None:
    found = compare(with_environments(A, A, {"kernel": "6.1"}, {"kernel": "6.1"}))
    assert found.apart == {"browse": "the sides ran in different environments: node (n1, not unknown) on the baseline"}


def test_ignored_keys_may_differ() -> None:
    other_node = {"kernel": "6.1", "node": "n2"}
    assert compare(with_environments(A, other_node, other_node, A)).deviating
    assert compare(with_environments(A, other_node, other_node, A), ("node",)) == EnvironmentFindings(
        {}, {}, frozenset()
    )


def test_runs_without_an_identity_are_unknown() -> None:
    found = compare(with_environments(A, A, {}, {}))
    assert found.unknown == {"1.1-browse-r01", "1.1-browse-r02"}
    assert not found.apart


def test_a_version_is_one_build_in_each_scenario() -> None:
    runs = campaign(scenarios=["browse", "search"], repeats=3)
    assert other_builds(runs) == {}
    assert other_builds([replace(run, service_digest=None) for run in runs]) == {}
    # Another scenario may configure the service differently, and two that are equally frequent have an order.
    by_scenario = [replace(run, service_digest=f"{run.version} {run.scenario}") for run in runs]
    assert other_builds(by_scenario) == {}
    two = [replace(run, service_digest=digest) for run, digest in zip(runs[:2], "ab", strict=True)]
    assert other_builds(two) == other_builds(two[::-1])
    assert list(other_builds(two)) == [two[1].run_id]
