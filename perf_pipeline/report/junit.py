"""The judgement as JUnit XML, which CI systems show as a list of tests.

What belongs here: which verdict is a pass, a failure or a skip there. One test suite a scenario, one test case a
metric, under the same names in every comparison so that CI systems can follow them. A regression is a failure. What the
data cannot answer is skipped with its reason, so that it never looks like a pass; a negative control that moved is an
error of the lab, in a suite of its own.
"""

import re
from xml.etree import ElementTree as ET

from perf_pipeline.gates.findings import Judgement, Verdict
from perf_pipeline.report.overview import scenario_rows
from perf_pipeline.report.wording import finding, metric_label, prose, sentence, what_it_would_take

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, whatever the escape."""


def render(judgement: Judgement) -> str:
    """The judgement as a JUnit XML document."""
    comparison = f"{judgement.candidate} against {judgement.baseline}"
    root = ET.Element("testsuites", name=_text(comparison))
    lab = _suite(root, "lab", comparison)
    control = ET.SubElement(lab, "testcase", name="negative control", classname="lab")
    if judgement.negative_control.status == "moved":
        _add(control, "error", "the lab moved", sentence(judgement.negative_control.message))
    elif judgement.negative_control.status != "quiet":
        _add(control, "skipped", sentence(judgement.negative_control.message), "")
    for row in scenario_rows(judgement):
        suite = _suite(root, row.scenario, comparison)
        for verdict in row.verdicts:
            if not verdict.absent:
                _case(suite, verdict)
    for suite in [*root]:
        _count(suite, [suite])
    _count(root, [*root])
    answer = ET.SubElement(lab, "system-out")
    answer.text = _text(prose(judgement.decision.headline))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, name: str, comparison: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", name=_text(name), package=_text(comparison))


def _case(suite: ET.Element, verdict: Verdict) -> None:
    case = ET.SubElement(suite, "testcase", name=_text(metric_label(verdict.metric)), classname=_text(verdict.scenario))
    if verdict.verdict == "regression":
        _add(case, "failure", finding(verdict), verdict.reason)
    elif verdict.verdict in ("inconclusive", "not comparable"):
        _add(case, "skipped", " ".join(filter(None, (finding(verdict), what_it_would_take(verdict)))), "")
    else:
        ET.SubElement(case, "system-out").text = _text(f"{verdict.verdict}: {finding(verdict)}")


def _add(case: ET.Element, outcome: str, message: str, detail: str) -> None:
    ET.SubElement(case, outcome, message=_text(message), type=outcome).text = _text(detail)


def _count(element: ET.Element, suites: list[ET.Element]) -> None:
    cases = [case for suite in suites for case in suite.findall("testcase")]
    element.set("tests", str(len(cases)))
    for attribute, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(case.find(outcome) is not None for case in cases)))


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
