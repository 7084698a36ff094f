"""The result document: built here, checked against ``result.schema.json``, read by every view and exporter."""

from __future__ import annotations

import functools
import json
import math
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from grader.exit_codes import BROKEN, FAILED, PASSED, USAGE
from grader.hardware import npu_here
from grader.inputs import Secret
from grader.isolation import notice
from grader.subject import Where
from grader.text import Text, say

SCHEMA_VERSION = 1
SCHEMA_FILE = Path(__file__).with_name("result.schema.json")
FINE = ("passed", "not_measured")  # statuses of checks that found nothing wrong
NOTHING_TO_SAY = say("通过", "passed")  # of a check that passed
MAX_ITEMS = 4096  # of any one list or table in the evidence
MAX_TEXT = 500  # characters of anything learner code says


def document(submissions: Iterable[dict[str, Any]], *, secret: Secret, isolation: Iterable[str] = ()) -> dict[str, Any]:
    """The whole document, in the order of the submissions. Its device is the NPU that hardware checks compare with."""
    rows, in_force = list(submissions), list(isolation)
    npu = npu_here()
    weak = notice(in_force) if any(row["exercises"] for row in rows) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "grader_version": version(),
        "secret": secret.key_id,
        "device": {
            "kind": "npu" if npu else "cpu",
            "torch": metadata.version("torch"),
            "npu": npu,
            "isolation": in_force,
        },
        "notice": weak.to_json() if weak else None,
        "submissions": rows,
    }


def submission(
    *,
    path: str,
    student: str,
    stage: str | None,
    sha256: str | None = None,
    status: str = "graded",
    max_score: float = 0.0,
    seconds: float = 0.0,
    message: Text | None = None,
    repairs: Iterable[Text] = (),
    exercises: Iterable[dict[str, Any]] = (),
    artifacts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One submission; its score is the sum over ``exercises``, and so is ``max_score`` when there are any.
    ``artifacts``: digests of what was handed in beside it."""
    rows = list(exercises)
    beside = {"artifacts": dict(artifacts)} if artifacts else {}
    return beside | {
        "path": path,
        "student": student,
        "stage": stage,
        "sha256": sha256,
        "status": status,
        "score": points(sum(row["score"] for row in rows)),
        "max_score": points(sum(row["max_score"] for row in rows) if rows else max_score),
        "seconds": round(seconds, 3),
        "message": message.to_json() if message else None,
        "repairs": [repair.to_json() for repair in repairs],
        "exercises": rows,
    }


def exercise(id: str, checks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": id,
        "score": points(sum(check["earned"] for check in checks)),
        "max_score": points(sum(check["points"] for check in checks)),
        "checks": checks,
    }


def for_learner(submission: Mapping[str, Any]) -> dict[str, Any]:
    """The submission as its author may see it: of hidden checks only the idea and whether it holds, not even a name."""
    return {
        **submission,
        "exercises": [{**exercise, "checks": list(_veiled(exercise))} for exercise in submission["exercises"]],
    }


def _veiled(exercise: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hidden = 0
    for check in exercise["checks"]:
        if check["visibility"] != "hidden":
            yield dict(check)
            continue
        hidden += 1
        veiled = {**check, "id": f"{exercise['id']}.hidden-{hidden}"}
        if check["status"] not in FINE:
            message = say("一项不公开的检查没有通过。", "A check that is not public does not pass.")
            veiled |= {"message": message.to_json(), "misconception": None, "evidence": {}, "where": None}
        yield veiled


def points(value: float) -> float:
    return round(float(value), 2)


def where(place: Where | None) -> dict[str, int | None] | None:
    return {"cell": place.cell, "line": max(place.line, 1)} if place else None


def clean(text: object) -> str:
    """What learner code says, as text that can be printed anywhere: no control characters, not endless."""
    printable = str(text).encode("utf-8", "replace").decode("utf-8")
    printable = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printable)
    printable = re.sub(r"[^\S\n]+|[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", " ", printable).strip()
    return printable if len(printable) <= MAX_TEXT else printable[: MAX_TEXT - 1] + "…"


def plain(value: Any) -> Any:
    """Evidence as strict JSON: numpy and torch numbers become Python's, NaN and infinities their names."""
    if value is None or isinstance(value, bool | str):
        return value
    if hasattr(value, "tolist"):  # numpy and torch
        return plain(value.tolist())
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else {math.inf: "inf", -math.inf: "-inf"}.get(number, "nan")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, Iterable):
        return [plain(item) for item in list(value)[:MAX_ITEMS]]
    return clean(value)


def exit_code(result: Mapping[str, Any]) -> int:
    """0 every check passed, 1 some did not, 2 a submission was unreadable, 3 the grader failed: the largest."""
    return max((_exit_code(entry) for entry in result["submissions"]), default=PASSED)


def _exit_code(entry: Mapping[str, Any]) -> int:
    if entry["status"] == "failed":
        return BROKEN
    if entry["status"] == "unreadable":
        return USAGE
    statuses = {check["status"] for row in entry["exercises"] for check in row["checks"]}
    return PASSED if statuses <= set(FINE) else FAILED


@functools.cache
def schema() -> dict[str, Any]:
    return json.loads(SCHEMA_FILE.read_text("utf-8"))


def validate(result: Any) -> None:
    """Raises ``jsonschema.ValidationError`` unless this is a result document, ``ValueError`` when a sum is wrong."""
    import jsonschema

    jsonschema.Draft202012Validator(schema()).validate(result)
    for entry in result["submissions"]:
        for row in entry["exercises"]:
            _same(row["id"], row["score"], (check["earned"] for check in row["checks"]))
            _same(row["id"], row["max_score"], (check["points"] for check in row["checks"]))
        _same(entry["path"], entry["score"], (row["score"] for row in entry["exercises"]))


def _same(what: str, total: float, parts: Iterable[float]) -> None:
    if abs(total - sum(parts)) > 0.05:
        raise ValueError(f"{what}: {total} is not the sum of its parts")


@functools.cache
def version() -> str:
    try:
        return metadata.version("flashdojo")
    except metadata.PackageNotFoundError:
        return "0+unknown"
