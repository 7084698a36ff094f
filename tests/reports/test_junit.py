"""Does the XML read as JUnit, tell everything once, and survive whatever a submission says?"""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from typing import Any

import junitparser
import pytest
from conftest import SECRET, entry_of

from grader.reports.junit import junit

pytestmark = pytest.mark.xdist_group("reports")  # one grading of the class serves them all

SUITES = {"name", "tests", "failures", "errors", "time"}  # what Jenkins' junit-10.xsd allows on each element
SUITE = {"name", "tests", "failures", "errors", "skipped", "time", "file"}
CASE = {"name", "classname", "time"}


def test_a_reader_of_junit_counts_what_the_document_says(document: dict[str, Any]) -> None:
    xml = junitparser.JUnitXml.fromroot(junitparser.JUnitXml.fromstring(junit(document).encode())._elem)
    kinds = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    for suite in xml:
        for case in suite:
            (result,) = case.result or [None]
            kinds[
                {junitparser.Failure: "failed", junitparser.Error: "error", junitparser.Skipped: "skipped"}.get(
                    type(result), "passed"
                )
            ] += 1
    statuses = [
        check["status"] for entry in document["submissions"] for row in entry["exercises"] for check in row["checks"]
    ]
    assert kinds == {
        "passed": statuses.count("passed"),
        "failed": statuses.count("failed"),
        "error": statuses.count("error") + statuses.count("timeout") + 1,  # and the submission that cannot be read
        "skipped": statuses.count("blocked") + statuses.count("not_measured"),
    }
    assert (xml.tests, xml.failures, xml.errors) == (sum(kinds.values()), kinds["failed"], kinds["error"])


def test_the_elements_are_those_of_the_common_schema(document: dict[str, Any]) -> None:
    root = ElementTree.fromstring(junit(document))
    assert root.tag == "testsuites"
    assert set(root.attrib) <= SUITES
    assert len(root) == len(document["submissions"])
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) <= SUITE
        assert {"name", "tests", "failures", "errors"} <= set(suite.attrib)
        assert [child.tag for child in suite] == ["properties", *["testcase"] * int(suite.attrib["tests"])]
        names = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
        assert len(names) == len(set(names))
        for case in suite.iter("testcase"):
            assert set(case.attrib) == CASE
            assert len(case) <= 1
            assert all(child.tag in ("failure", "error", "skipped") for child in case)
            assert all(set(child.attrib) == {"message", "type"} for child in case)


def test_a_failure_names_the_idea_the_evidence_and_the_place(document: dict[str, Any]) -> None:
    root = ElementTree.fromstring(junit(document, lang="en"))
    suite = next(suite for suite in root if suite.get("name") == "ivan · s2")
    case = next(case for case in suite.iter("testcase") if "s2-forward.values" in (case.get("name") or ""))
    failure = case.find("failure")
    assert failure is not None
    assert failure.text
    assert failure.get("type") == "forbidden-library_attention"
    assert "Library attention is used" in failure.text
    assert "ivan.py: line 47" in failure.text


@pytest.mark.parametrize(("lang", "said"), [("zh", "用了库里的注意力"), ("en", "Library attention is used")])
def test_it_speaks_one_language(document: dict[str, Any], lang: str, said: str) -> None:
    xml = junit(document, lang=lang)
    assert said in xml
    assert ("Library attention" in xml) == (lang == "en")


def test_hidden_checks_stay_hidden(document: dict[str, Any]) -> None:
    xml = junit(document, lang="en")
    assert SECRET not in xml
    assert "s2-forward.hidden-1 (hidden) short tiles at the end" in xml


def test_what_xml_cannot_hold_is_replaced(document: dict[str, Any]) -> None:
    entry = entry_of(document, "chen")
    entry["student"] = "a\x00b\x1b<&\ufffe\ud800"
    root = ElementTree.parse(io.BytesIO(junit(document).encode("utf-8"))).getroot()
    assert "a\ufffdb\ufffd<&\ufffd\ufffd · s2" in [suite.get("name") for suite in root]
