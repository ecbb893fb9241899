"""JUnit XML: regressions fail, what is not known is skipped and never passes, any name makes a readable document."""

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report import junit
from tests import report_judgements

JUDGEMENTS = (
    report_judgements.regression,
    report_judgements.no_regression,
    report_judgements.not_enough_evidence,
    report_judgements.control_moved,
    report_judgements.everything_set_aside,
)


@pytest.mark.parametrize("make", JUDGEMENTS)
def test_each_verdict_is_one_test_with_its_outcome(make: Callable[[], Judgement]) -> None:
    judgement = make()
    root = ET.fromstring(junit.render(judgement))
    cases = {
        (suite.get("name"), str(case.get("name"))): {child.tag for child in case}
        for suite in root
        for case in suite.findall("testcase")
        if suite.get("name") != "lab"
    }
    asked = [verdict for verdict in judgement.verdicts if not verdict.absent]
    assert len(cases) == len(asked)
    outcomes = {"regression": "failure", "inconclusive": "skipped", "not comparable": "skipped"}
    for verdict in asked:
        label = junit.metric_label(verdict.metric)
        assert cases[verdict.scenario, label] == {outcomes.get(verdict.verdict, "system-out")}


@pytest.mark.parametrize("make", JUDGEMENTS)
def test_the_counts_are_those_of_the_cases(make: Callable[[], Judgement]) -> None:
    root = ET.fromstring(junit.render(make()))
    for element in (root, *root):
        assert element.get("tests") == str(len(list(element.iter("testcase"))))
        for attribute, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert element.get(attribute) == str(len(list(element.iter(outcome))))


def test_a_control_that_moved_is_an_error_of_the_lab() -> None:
    lab = ET.fromstring(junit.render(report_judgements.control_moved()))[0]
    assert lab.get("name") == "lab"
    assert lab.get("errors") == "1"
    assert ET.fromstring(junit.render(report_judgements.regression()))[0].get("errors") == "0"


@given(st.text(min_size=1))
def test_any_name_makes_a_document_that_can_be_read(name: str) -> None:
    judgement = report_judgements.not_enough_evidence()
    odd = replace(
        judgement,
        candidate=name,
        verdicts=tuple(replace(verdict, scenario=name, reason=name) for verdict in judgement.verdicts),
    )
    assert ET.fromstring(junit.render(odd).encode()).tag == "testsuites"
