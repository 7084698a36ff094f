"""Is the document exact, printable, and does the exit code follow from it?"""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch

from grader import results
from grader.inputs import Secret
from grader.subject import Where
from grader.text import say


def check(status: str = "passed", points: float = 5, **changed: Any) -> dict[str, Any]:
    return {
        "id": "s1-softmax.values", "concept": "softmax", "visibility": "public", "status": status, "points": points,
        "earned": points if status == "passed" else 0, "message": {"zh": "好", "en": "good"}, "misconception": None,
        "evidence": {}, "where": None, "seconds": 0.1,
    } | changed  # fmt: skip


def document(*checks: dict[str, Any], status: str = "graded", **changed: Any) -> dict[str, Any]:
    rows = [results.exercise("s1-softmax", list(checks))] if checks else []
    entry = results.submission(
        path="a.py", student="ann", stage="s1", sha256="0" * 64, status=status, max_score=15, exercises=rows
    )
    return results.document([entry | changed], secret=Secret(), isolation=["landlock"])


def test_the_document_has_the_shape_of_the_design() -> None:
    result = document(check(), check("failed", 2.5))
    results.validate(result)
    assert list(result) == ["schema_version", "grader_version", "secret", "device", "notice", "submissions"]
    entry = result["submissions"][0]
    assert (entry["score"], entry["max_score"], result["secret"]) == (5, 7.5, "public")
    assert result["device"]["isolation"] == ["landlock"]
    json.dumps(result, allow_nan=False)


def test_a_key_is_named_and_never_shown() -> None:
    result = results.document([], secret=Secret(b"very private"))
    results.validate(result)
    assert len(result["secret"]) == 16
    assert "private" not in json.dumps(result)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("schema_version",), 2),
        (("secret",), "private"),
        (("device", "kind"), "gpu"),
        (("extra",), 1),
        (("submissions", 0, "status"), "ok"),
        (("submissions", 0, "sha256"), "abc"),
        (("submissions", 0, "student"), ""),
        (("submissions", 0, "message"), {"en": "only one"}),
        (("submissions", 0, "exercises", 0, "id"), "s1.softmax"),
        (("submissions", 0, "exercises", 0, "checks", 0, "status"), "skipped"),
        (("submissions", 0, "exercises", 0, "checks", 0, "earned"), -1),
        (("submissions", 0, "exercises", 0, "checks", 0, "where"), {"cell": 1}),
        (("submissions", 0, "exercises", 0, "checks", 0, "where"), {"cell": None, "line": 0}),
        (("submissions", 0, "exercises", 0, "checks", 0, "visibility"), "secret"),
        (("submissions", 0, "exercises", 0, "checks", 0, "message"), {"zh": "", "en": "x"}),
    ],
)
def test_anything_else_is_no_document(where: tuple[Any, ...], value: Any) -> None:
    result = copy.deepcopy(document(check()))
    place: Any = result
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        results.validate(result)


def test_every_field_is_required() -> None:
    result = document(check())
    for entry in (result, result["device"], result["submissions"][0], result["submissions"][0]["exercises"][0],
                  result["submissions"][0]["exercises"][0]["checks"][0]):  # fmt: skip
        for key in list(entry):
            value = entry.pop(key)
            with pytest.raises(jsonschema.ValidationError):
                results.validate(result)
            entry[key] = value
    results.validate(result)


def test_sums_are_checked() -> None:
    result = document(check())
    result["submissions"][0]["score"] = 99
    with pytest.raises(ValueError, match="not the sum"):
        results.validate(result)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (document(check()), 0),
        (document(check(), check("not_measured", 0)), 0),
        (document(check(), check("failed")), 1),
        (document(check("blocked")), 1),
        (document(check("timeout")), 1),
        (document(check("error")), 1),
        (document(status="unreadable"), 2),
        (document(check(), status="failed"), 3),
    ],
)
def test_the_exit_code(result: dict[str, Any], code: int) -> None:
    assert results.exit_code(result) == code


def test_over_a_batch_the_largest_exit_code_counts() -> None:
    entries = [document(check(s)).get("submissions")[0] for s in ("passed", "failed")]  # type: ignore[index]
    unreadable = document(status="unreadable")["submissions"][0]
    assert results.exit_code({"submissions": []}) == 0
    assert results.exit_code({"submissions": entries}) == 1
    assert results.exit_code({"submissions": [unreadable, *entries]}) == 2


def test_evidence_becomes_strict_json() -> None:
    plain = results.plain(
        {
            "max_error": torch.tensor(0.5), "index": (np.int64(3), 2), "expected": math.nan, "got": -math.inf,
            "errors": np.ones((2, 2)), "flag": True, "none": None, "shape": torch.Size([1, 2]), 7: {"x"}, "d": float,
        }
    )  # fmt: skip
    assert plain["max_error"] == 0.5
    assert plain["index"] == [3, 2]
    assert (plain["expected"], plain["got"]) == ("nan", "-inf")
    assert plain["errors"] == [[1.0, 1.0], [1.0, 1.0]]
    assert plain["flag"] is True
    assert plain["7"] == ["x"]
    json.dumps(plain, allow_nan=False)
    assert len(results.plain(range(10**6))) == results.MAX_ITEMS


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain 中文", "plain 中文"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\tb\r\nc\0d", "a b \nc d"),
        ("\ud800", "?"),
        ("\u202eevil", "evil"),
        ("x" * 1000, "x" * 499 + "…"),
        (ValueError("v"), "v"),
    ],
)
def test_what_learner_code_says_can_be_printed(said: object, shown: str) -> None:
    assert results.clean(said) == shown


def test_a_place_is_a_cell_and_a_line() -> None:
    assert results.where(Where(3, 5)) == {"cell": 3, "line": 5}
    assert results.where(Where(None, 0)) == {"cell": None, "line": 1}
    assert results.where(None) is None


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(results.schema())
    assert say("好", "good").to_json().keys() == set(results.schema()["$defs"]["text"]["required"])
