"""The JSON output and its published schema."""

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError

from perf_pipeline.files import project_file
from perf_pipeline.gates import findings
from perf_pipeline.report.json_output import to_json
from tests.report_judgements import OUTCOMES, many_scenarios, regression

SCHEMA = json.loads(project_file("docs/judgement.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("build", [*OUTCOMES.values(), many_scenarios])
def test_real_output_fits_the_schema(build: object) -> None:
    VALIDATOR.validate(json.loads(json.dumps(to_json(build()), allow_nan=False)))  # type: ignore[operator]


def test_the_schema_is_valid_and_describes_every_field() -> None:
    Draft202012Validator.check_schema(SCHEMA)

    def objects(node: object) -> list[dict]:
        if isinstance(node, dict):
            inner = [found for value in node.values() for found in objects(value)]
            return [node, *inner] if "properties" in node and "type" in node else inner
        return [found for value in node for found in objects(value)] if isinstance(node, list) else []

    for node in objects(SCHEMA):
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])
        assert all("description" in field or "$ref" in field for field in node["properties"].values())


@pytest.mark.parametrize(
    ("name", "kind", "more"),
    [
        ("verdict", findings.Verdict, {"change"}),
        ("percentile", findings.PercentileChange, set()),
        ("run", findings.RunValidity, set()),
        ("check", findings.RunCheck, set()),
        ("agreement", findings.Agreement, set()),
        ("pooled", findings.Pooled, set()),
    ],
)
def test_the_schema_has_the_fields_of_the_findings(name: str, kind: type, more: set[str]) -> None:
    assert set(SCHEMA["$defs"][name]["properties"]) == {field.name for field in fields(kind)} | more


def test_a_new_field_is_caught() -> None:
    found = to_json(regression())
    found["verdicts"][0]["surprise"] = 1
    with pytest.raises(ValidationError, match="surprise"):
        VALIDATOR.validate(found)


def test_what_is_not_finite_is_null_and_numpy_becomes_plain() -> None:
    found = regression()
    odd = replace(
        found.verdicts[0], estimate=math.nan, low=-math.inf, high=np.float64(0.5), baseline_repeats=np.int64(5)
    )
    verdict = to_json(replace(found, verdicts=(odd,)))["verdicts"][0]
    assert (verdict["estimate"], verdict["low"]) == (None, None)
    assert type(verdict["high"]) is float
    assert type(verdict["baseline_repeats"]) is int


def test_each_verdict_says_what_its_change_is() -> None:
    kinds = {verdict["metric"]: verdict["change"] for verdict in to_json(regression())["verdicts"]}
    assert kinds["http_error_rate"] == "difference of shares"
    assert kinds["client_latency"] == "relative"


def test_the_keys_are_those_that_were_promised() -> None:
    found = to_json(regression())
    assert found["decision"]["answer"] == "regression"
    assert found["comparison"] == {"baseline": "1.0.0", "candidate": "1.1.0"}
    assert found["policy"] == {"name": "default", "version": "1"}
    verdict = found["verdicts"][0]
    promised = (
        "scenario metric verdict reason estimate low high zone_low zone_high smallest_detectable repeats_to_settle"
    )
    assert set(promised.split()) <= set(verdict)
    assert set(verdict["percentiles"][0]) >= {"p", "estimate", "low", "high", "band_low", "band_high"}
    assert set(found["runs"][0]["checks"][0]) >= {"check", "metric", "status", "value", "limit"}
    assert {"agreement", "pooled", "negative_control"} <= set(found)
