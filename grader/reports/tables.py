"""Scores as a CSV: plain for spreadsheets, or as the gradebooks of Canvas and Moodle import them.

A submission that could not be graded has no score, and an id with several submissions for a stage has no single one:
neither becomes a number in a gradebook, and :attr:`Table.left_out` says which they are.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from grader.batch.names import CANVAS as CANVAS_FILE
from grader.course import catalog
from grader.text import Text, language, say
from grader.views.content import ideas, number

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("Username", "ID number")
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")  # what a spreadsheet would run


@dataclass
class Table:
    text: str  # the file's contents
    left_out: list[tuple[str, Text]] = field(default_factory=list)  # student, why there is no score


def plain(document: Mapping[str, Any], *, lang: str | None = None) -> str:
    """One row for each submission, whatever became of it: points by exercise and the wrong ideas by name."""
    lang = lang or language()
    entries = document["submissions"]
    exercises = list(dict.fromkeys(exercise["id"] for entry in entries for exercise in entry["exercises"]))
    head = ["student", "stage", "status", "score", "max_score", *exercises, "remarks", "seconds", "path"]
    rows: list[Sequence[str]] = [head]
    for entry in entries:
        scores = {exercise["id"]: number(exercise["score"]) for exercise in entry["exercises"]}
        graded = entry["status"] == "graded"
        if entry["message"]:
            remarks = Text(**entry["message"]).pick(lang)
        else:
            remarks = "; ".join(idea.pick(lang) for idea in ideas(entry))
        rows.append(
            [
                entry["student"],
                entry["stage"] or "",
                entry["status"],
                number(entry["score"]) if graded else "",
                number(entry["max_score"]),
                *(scores.get(id, "") for id in exercises),
                remarks,
                f"{entry['seconds']:.1f}",
                entry["path"],
            ]
        )
    return written(rows)


def canvas(document: Mapping[str, Any]) -> Table:
    """What Canvas's gradebook import takes: it finds a student by SIS id, login or name, whichever fits first."""
    scores, left_out = scores_of(document)
    stages = _stages(document)
    head = [*CANVAS, *(stage_title(stage) for stage in stages)]
    most = ["    Points Possible", "", "", "", "", *(number(_most(document, stage)) for stage in stages)]
    ids = {entry["student"]: _canvas_id(entry["path"]) for entry in document["submissions"]}
    rows = [
        [
            *(student, ids[student], student, student, ""),
            *(number(points[stage]) if stage in points else "" for stage in stages),
        ]
        for student, points in scores.items()
    ]
    return Table(written([head, most, *rows]), left_out)


def _canvas_id(path: str) -> str:
    """The student's number in Canvas, when the file still has the name that Canvas gave the download."""
    found = CANVAS_FILE.fullmatch(PurePath(path).name)
    return found["id"] if found else ""


def moodle(document: Mapping[str, Any], *, lang: str | None = None) -> Table:
    """For Moodle's grade import, where the column to match and the grade to fill are chosen on the page."""
    lang = lang or language()
    scores, left_out = scores_of(document)
    stages = _stages(document)
    remarks: dict[tuple[str, str], str] = {}
    for entry in document["submissions"]:
        remarks[entry["student"], entry["stage"]] = "; ".join(idea.pick(lang) for idea in ideas(entry))
    head = [*MOODLE]
    for stage in stages:
        head += [stage_title(stage), f"{stage_title(stage)} (feedback)"]
    rows = []
    for student, points in scores.items():
        row = [student, student]
        for stage in stages:
            row += [number(points[stage]), remarks[student, stage]] if stage in points else ["", ""]
        rows.append(row)
    return Table(written([head, *rows]), left_out)


def scores_of(document: Mapping[str, Any]) -> tuple[dict[str, dict[str, float]], list[tuple[str, Text]]]:
    """Points by student and stage, and whose are left out with the reason."""
    entries = document["submissions"]
    times = Counter((entry["student"], entry["stage"]) for entry in entries)
    scores: dict[str, dict[str, float]] = {}
    left_out: dict[tuple[str, str | None], Text] = {}
    for entry in entries:
        key = entry["student"], entry["stage"]
        if times[key] > 1:
            left_out[key] = say("有 {n} 份提交", "has {n} submissions", n=times[key])
        elif entry["status"] != "graded" or entry["stage"] is None:
            left_out[key] = Text(**entry["message"]) if entry["message"] else say("没有成绩", "has no score")
        else:
            scores.setdefault(entry["student"], {})[entry["stage"]] = entry["score"]
    return scores, [(student, why) for (student, _), why in left_out.items()]


def stage_title(stage: str) -> str:
    """The column of a stage: the name that the assignment is given in an English gradebook."""
    try:
        return catalog.load(strict=False, checks=False).stage(stage).title.en
    except catalog.UnknownStage:
        return stage


def _stages(document: Mapping[str, Any]) -> list[str]:
    return sorted({entry["stage"] for entry in document["submissions"] if entry["stage"] and entry["exercises"]})


def _most(document: Mapping[str, Any], stage: str) -> float:
    return max(entry["max_score"] for entry in document["submissions"] if entry["stage"] == stage)


def written(rows: Iterable[Sequence[str]], *, delimiter: str = ",", tame: bool = True) -> str:
    """Rows as CSV. ``tame``: no cell starts like a formula, for a learner chose some of the words."""
    stream = io.StringIO()
    # everything quoted: a spreadsheet that splits at another sign would else find a formula behind it
    table = csv.writer(
        stream, delimiter=delimiter, lineterminator="\r\n", quoting=csv.QUOTE_ALL if tame else csv.QUOTE_MINIMAL
    )
    table.writerows([[_tame(cell) for cell in row] if tame else row for row in rows])
    return stream.getvalue()


def _tame(cell: str) -> str:
    if not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell
