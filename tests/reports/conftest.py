"""A small class, graded for real: right, wrong, forbidden, endless, unreadable; and one hidden check."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grader import paths
from grader.batch.run import grade_paths
from grader.wall.limits import Limits

CLASS = paths.EXAMPLES / "submissions"
SECRET = "what-the-private-check-tries"


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("class")
    broken = folder / "赵 六.ipynb"
    broken.write_text("{not json", encoding="utf-8")
    lost = folder / "ann.py"  # fails on a line of its own, and its file is gone when the report is made
    source = (
        (CLASS / "ada.py")
        .read_text("utf-8")
        .replace("def flash_traffic(", "def flash_traffic(*a, **k):\n    return 1 / 0\n\ndef f(")
    )
    lost.write_text(source, encoding="utf-8")
    names = ("ada.py", "bao.ipynb", "chen.py", "dana.py", "fumi.py", "ivan.py", "jade.py")
    targets = [*(CLASS / name for name in names), broken, lost]
    document = grade_paths(targets, stage="s2", jobs=2, limits=Limits(call=1.0))
    lost.unlink()
    return document


@pytest.fixture
def document(graded: dict[str, Any]) -> dict[str, Any]:
    """The class with an instructor's own check, which ada passes and everybody else fails."""
    result = copy.deepcopy(graded)
    for entry in result["submissions"]:
        for exercise in entry["exercises"]:
            if exercise["id"] == "s2-forward":
                exercise["checks"].append(hidden_check(entry["student"] == "ada"))
                exercise["score"] += exercise["checks"][-1]["earned"]
                exercise["max_score"] += 5
        if entry["exercises"]:
            entry["score"] = sum(exercise["score"] for exercise in entry["exercises"])
            entry["max_score"] = sum(exercise["max_score"] for exercise in entry["exercises"])
    return result


def hidden_check(passes: bool) -> dict[str, Any]:
    return {
        "id": f"s2-forward.{SECRET}",
        "concept": "tail-tiles",
        "visibility": "hidden",
        "status": "passed" if passes else "failed",
        "points": 5.0,
        "earned": 5.0 if passes else 0.0,
        "message": {"zh": f"{SECRET}：错", "en": f"{SECRET}: wrong"},
        "misconception": None if passes else "tail-dropped",
        "evidence": {} if passes else {"case": SECRET, "max_error": 12.25, "tolerance": 1e-5},
        "where": None if passes else {"cell": None, "line": 53},
        "seconds": 0.01,
    }


def entry_of(document: dict[str, Any], student: str) -> dict[str, Any]:
    return next(entry for entry in document["submissions"] if entry["student"] == student)
