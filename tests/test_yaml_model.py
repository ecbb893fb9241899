"""YAML files that people write: every error at once, each with its line and field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from perf_pipeline.errors import InputError
from perf_pipeline.yaml_model import parse_yaml_model


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    items: list[Inner] = []


def test_all_errors_come_at_once_with_line_and_path() -> None:
    text = "name: x\nitems:\n  - number: one\n  - {}\nspare: 1\n"
    with pytest.raises(InputError) as caught:
        parse_yaml_model(Outer, text, "file.yaml")
    places = [(problem.where, problem.what.split(" (")[0]) for problem in caught.value.problems]
    assert places == [
        ("file.yaml:3: items[0].number", "input should be a valid integer, unable to parse string as an integer"),
        ("file.yaml:4: items[1].number", "is missing"),
        ("file.yaml:5: spare", "is not a known field"),
    ]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("name: [", "file.yaml:1", "is not YAML"),
        ("name: 2026-99-99", "file.yaml", "is not YAML"),
        ("name: a\nitems: &x [*x]\n", "file.yaml:2: items[0]", "input should be a valid dictionary"),
        ("", "file.yaml", "is empty or not a mapping"),
        ("- a", "file.yaml", "is empty or not a mapping"),
        ("name: a\nname: b\n", "file.yaml:2: name", "stands twice"),
        ("name: a\nitems: [{number: 1, number: 2}]\n", "file.yaml:2: number", "stands twice"),
    ],
)
def test_what_is_not_a_mapping_of_fields_is_named(text: str, where: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml_model(Outer, text, "file.yaml")
    (problem,) = caught.value.problems
    assert problem.where == where
    assert problem.what.startswith(what)


@given(st.text(max_size=60))
def test_any_text_is_a_model_or_an_input_error(text: str) -> None:
    try:
        assert parse_yaml_model(Outer, text, "f").name is not None
    except InputError as error:
        assert error.problems
