import pytest
import yaml
from pydantic import ValidationError

from perf_pipeline.files import project_file
from perf_pipeline.gates.evidence import METRICS, NEGATIVE_CONTROL
from perf_pipeline.gates.policy import Policy
from tests.simulated_runs import policy

BUILT_IN = sorted(path.stem for path in (project_file("perf_pipeline") / "gates" / "policies").glob("*.yaml"))


def text_of(name: str) -> str:
    return (project_file("perf_pipeline") / "gates" / "policies" / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_policy_carries_its_file_name(name: str) -> None:
    assert policy(name).name == name


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_limit_of_a_built_in_policy_says_what_it_means(name: str) -> None:
    """A comment on the line, or on one beside it in the same list of metrics."""
    bare = [
        line
        for line in text_of(name).splitlines()
        if ":" in line and not line.endswith(":") and "#" not in line and line.startswith("  ")
    ]
    explained_by_a_neighbour = {
        "on_fail", "on_not_measured", "per_s", "metrics", "ignored_keys", *METRICS,
    }  # fmt: skip
    assert [line for line in bare if line.split(":")[0].strip() not in explained_by_a_neighbour] == []


def test_the_article_and_the_default_differ_where_the_article_says_so() -> None:
    default, article = policy("default"), policy("v2.18")
    assert default.change.zone["client_latency"] == article.change.zone["client_latency"] == 0.10
    assert default.repeat_agreement.on_too_few_to_say == "compare"
    assert article.repeat_agreement.on_too_few_to_say == "not comparable"
    assert article.run_validity.throttling.drops == ["service_latency"]


def test_unknown_keys_are_errors_in_every_section() -> None:
    data = yaml.safe_load(text_of("default"))
    data["tolerance"] = 0.1
    data["run_validity"]["drift"]["slope"] = 1
    data["change"]["zone"]["throughput"] = 0.1
    with pytest.raises(ValidationError) as raised:
        Policy.model_validate(data)
    places = {".".join(map(str, error["loc"])) for error in raised.value.errors()}
    assert places == {"tolerance", "run_validity.drift.slope", "change.zone"}


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("change__zone", {"client_latency": 0.1}, "says nothing about service_latency"),
        ("change__confidence", 1.0, "less than 1"),
        ("change__min_runs_per_side", 1, "greater than or equal to 2"),
        ("pooled__percentiles", [50, 51], "not among the percentiles that are compared: 51"),
        ("run_validity__throttling__drops", [], "exactly when on_fail is 'drop metrics'"),
        ("run_validity__achieved_rate__max_deviation", float("nan"), "finite"),
        ("run_validity__drift__on_fail", dict.fromkeys(METRICS, "keep"), "cannot say anything about http_error_rate"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limit: str, value: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        policy(**{limit: value})


def test_a_policy_that_leaves_a_limit_out_is_refused() -> None:
    data = yaml.safe_load(text_of("default"))
    del data["change"]["noise_floor"]
    with pytest.raises(ValidationError, match="noise_floor"):
        Policy.model_validate(data)


def test_the_floor_of_agreement_is_a_share_of_the_zone() -> None:
    assert policy().agreement_floor(NEGATIVE_CONTROL) == pytest.approx(0.025)
    assert policy().agreement_floor("http_error_rate") == pytest.approx(0.00025)
