"""JUnit XML, which CI systems show as a list of tests: a suite for each submission, a case for each check.

The dialect is the common one of Jenkins, GitLab and GitHub's viewers (``testsuites/testsuite/testcase`` with
``failure``, ``error`` and ``skipped``). It goes where learners see it, so of a hidden check it tells as little as
their page does.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

from grader import results
from grader.subject import Where, position
from grader.text import Text, language, say
from grader.views.content import COLON, Block, Line, blocks, number
from grader.views.facts import shown

KINDS = {
    "failed": "failure",
    "error": "error",
    "timeout": "error",
    "blocked": "skipped",
    "not_measured": "skipped",
}
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 cannot hold


def junit(document: Mapping[str, Any], *, lang: str | None = None) -> str:
    """The document as JUnit XML, its messages in ``lang``."""
    lang = lang or language()
    root = ElementTree.Element("testsuites", name="FlashDojo")
    for entry in document["submissions"]:
        root.append(_suite(results.for_learner(entry), lang))
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("time", f"{sum(entry['seconds'] for entry in document['submissions']):.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(entry: Mapping[str, Any], lang: str) -> ElementTree.Element:
    name = " · ".join(part for part in (entry["student"], entry["stage"]) if part)
    suite = ElementTree.Element(
        "testsuite", name=_safe(name), time=f"{entry['seconds']:.3f}", file=_safe(entry["path"])
    )
    properties = ElementTree.SubElement(suite, "properties")
    for key in ("student", "stage", "status", "score", "max_score"):
        value = entry[key] if isinstance(entry[key], str | None) else number(entry[key])
        ElementTree.SubElement(properties, "property", name=key, value=_safe(value or ""))
    if entry["status"] != "graded":
        _case(suite, "reading", "submission", 0.0, "error", _message(entry, lang), entry["status"], "")
    for block, exercise in zip(blocks(entry), entry["exercises"]):
        for line, check in zip(block.lines, exercise["checks"]):
            title = _title(line, check["visibility"] == "hidden").pick(lang)
            _case(
                suite,
                f"{line.id} {title}",
                f"{entry['stage'] or 'flashdojo'}.{block.name}",
                check["seconds"],
                KINDS.get(line.status),
                line.message.pick(lang),
                line.misconception or line.status,
                _details(entry, block, line, lang),
            )
    cases = suite.findall("testcase")
    for total, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(total, str(sum(case.find(kind) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    return suite


def _title(line: Line, secret: bool) -> Text:
    return say("（不公开）{it}", "(hidden) {it}", it=line.title) if secret else line.title


def _message(entry: Mapping[str, Any], lang: str) -> str:
    return Text(**entry["message"]).pick(lang) if entry["message"] else entry["status"]


def _case(
    suite: ElementTree.Element,
    name: str,
    classname: str,
    seconds: float,
    kind: str | None,
    message: str,
    type: str,
    details: str,
) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", name=_safe(name), classname=_safe(classname), time=f"{seconds:.3f}"
    )
    if kind:
        problem = ElementTree.SubElement(case, kind, message=_safe(message), type=_safe(type))
        problem.text = _safe(details) or None


def _details(entry: Mapping[str, Any], block: Block, line: Line, lang: str) -> str:
    """What stands in the viewer under a case that did not pass."""
    if line.status in ("passed", "blocked", "not_measured"):
        return ""
    parts = [line.message.pick(lang)]
    if line.idea:
        title, explain = line.idea
        parts.append(title.pick(lang) + COLON.pick(lang) + explain.pick(lang))
    parts += [label.pick(lang) + COLON.pick(lang) + shown(value) for label, value in line.facts]
    if line.place:
        parts.append(f"{entry['path']}{COLON.pick(lang)}{position(Where(**line.place)).pick(lang)}")
    points = say(
        "{earned} / {points} 分", "{earned} of {points} points", earned=number(line.earned), points=number(line.points)
    )
    return "\n".join([*parts, points.pick(lang)])


def _safe(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)
