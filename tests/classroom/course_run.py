"""A course of twelve submissions taken through nbgrader's real commands, once for all tests that look at it."""

from __future__ import annotations

import copy
import csv
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from grader.classroom.course import create
from grader.course import catalog, notebooks

STAGE = "s2"
NOTEBOOK = "s2_flash_attention"
NBGRADER = Path(sys.executable).with_name("nbgrader")

EXPLOITS = {
    "patched-asserts": (
        "import numpy as np\nimport grader\nimport torch\n"
        "np.testing.assert_allclose = lambda *a, **k: None\nnp.allclose = torch.allclose = lambda *a, **k: True\n"
        "grader.check = check = lambda *a, **k: 30.0\n"
    ),
    "input-transformer": "get_ipython().input_transformers_cleanup.append(lambda lines: ['30.0\\n'])\n",
    "displayhook": "get_ipython().displayhook(30.0)\nimport sys\nsys.displayhook = lambda value: print(30.0)\n",
    "frame-walk": (
        "import sys\nframe = sys._getframe()\nwhile frame is not None:\n"
        "    for name in list(frame.f_globals):\n        if 'score' in name or 'expected' in name or name == 'ref':\n"
        "            frame.f_globals[name] = 30.0\n    frame = frame.f_back\n"
    ),
    "gradebook": (
        "import glob, os, sqlite3\n"
        "for place in ['.', '..', '../..', '../../..', {course!r}]:\n    try:\n"
        "        db = sqlite3.connect(os.path.join(place, 'gradebook.db'))\n"
        "        db.execute('update grade set manual_score = 30, auto_score = 30')\n        db.commit()\n"
        "    except Exception as error:\n        print(error)\n"
        "for file in glob.glob({course!r} + '/source/*/*.ipynb'):\n    stolen = open(file).read()\n"
        "    exec(compile(stolen, 'stolen', 'exec'))\n"
    ),
}
WRONG = "\n\ndef flash_attention_forward(q, k, v, **options):\n    return v, v[..., 0]\n"


@dataclass
class Run:
    """The finished course."""

    folder: Path
    outputs: dict[str, str] = field(default_factory=dict)  # command -> what it said
    scores: dict[str, float] = field(default_factory=dict)  # student -> exported score

    def nbgrader(self, *words: str, code: int | None = 0) -> str:
        """Run nbgrader as somebody would whose PATH does not know it."""
        places = os.environ["PATH"].split(os.pathsep)
        path = os.pathsep.join(place for place in places if Path(place) != NBGRADER.parent)
        environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore", "HOME": str(self.folder.parent)}
        done = subprocess.run(
            [str(NBGRADER), *words], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300
        )
        said = done.stdout + done.stderr
        self.outputs[" ".join(words)] = said
        assert code is None or done.returncode == code, f"nbgrader {' '.join(words)}: {done.returncode}\n{said[-3000:]}"
        return said

    def autograded(self, student: str) -> NotebookNode:
        return nbformat.read(self.folder / "autograded" / student / STAGE / f"{NOTEBOOK}.ipynb", 4)

    def feedback(self, student: str) -> str:
        return (self.folder / "feedback" / student / STAGE / f"{NOTEBOOK}.html").read_text("utf-8")

    def released(self) -> NotebookNode:
        return nbformat.read(self.folder / "release" / STAGE / f"{NOTEBOOK}.ipynb", 4)

    def export(self) -> None:
        target = self.folder / "grades.csv"
        self.nbgrader("export", "--to", str(target))
        with target.open(encoding="utf-8") as file:
            self.scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}

    def gradebook(self, query: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.folder / "gradebook.db")
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


def solved(notebook: NotebookNode, but: dict[str, str] | None = None) -> NotebookNode:
    """The released notebook with worked solutions, or ``but`` these answers."""
    answers = {exercise.id: exercise for exercise in catalog.load(checks=False).stage(STAGE).exercises}
    result = copy.deepcopy(notebook)
    for cell in result.cells:
        own = cell.metadata.get("flashdojo", {})
        if own.get("role") == "answer":
            cell.source = (but or {}).get(own["exercise"]) or notebooks.solution(answers[own["exercise"]], "en")
    return result


def cell_of(notebook: NotebookNode, grade_id: str) -> int:
    return next(
        i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )


def class_of_twelve(course: Path, released: NotebookNode) -> dict[str, NotebookNode | bytes]:
    """By student. Three are honest and right or wrong, four had accidents, five cheat."""
    traffic = notebooks.solution(catalog.load(checks=False).exercise("s2-traffic"), "en")
    no_flops = traffic + (
        "\n\nwhole = flash_traffic\n\n\n"
        "def flash_traffic(*sizes, **named):\n    return whole(*sizes, **named) | {'flops': 1}\n"
    )
    duplicated = solved(released)
    twin = copy.deepcopy(duplicated.cells[cell_of(duplicated, "s2-forward")])
    twin.id = "twin"
    duplicated.cells.append(twin)
    shortened = solved(released)
    del shortened.cells[cell_of(shortened, "s2-forward")]
    del shortened.cells[cell_of(shortened, "s2-merge-answer")]
    edited = solved(released)
    edited.cells[cell_of(edited, "s2-merge")].source = "5.0"
    edited.cells[cell_of(edited, "s2-tiles")].metadata.nbgrader.points = 1000
    raw = edited.cells[cell_of(edited, "s2-backward-answer")]
    raw.cell_type = "raw"
    del raw["outputs"], raw["execution_count"]
    made: dict[str, NotebookNode | bytes] = {
        "ada": solved(released),
        "陈 晨": solved(released, {"s2-traffic": no_flops}),
        "idle": released,
        "duplicated": duplicated,
        "shortened": shortened,
        "edited": edited,
        "broken": b'{"cells": [',
    }
    for name, code in EXPLOITS.items():
        cheat = copy.deepcopy(released)
        answer = cheat.cells[cell_of(cheat, "s2-forward-answer")]
        answer.source = code.replace("{course!r}", repr(str(course))) + WRONG
        cheat.cells.insert(1, new_code_cell(answer.source))
        made[name] = cheat
    return made


def hand_in(folder: Path, student: str, notebook: NotebookNode | bytes) -> None:
    """As ``nbgrader submit`` leaves it for ``collect``: in the exchange's inbound folder, under the student's name."""
    stamp = datetime(2026, 3, 1, 12).strftime("%Y-%m-%d %H:%M:%S UTC")
    target = folder / "exchange" / folder.name / "inbound" / f"{student}+{STAGE}+{stamp}+0123456789"
    target.mkdir()
    (target / "timestamp.txt").write_text(stamp)
    (target / "submission_secret.txt").write_text("0123456789abcdef" * 4)  # names the feedback's file
    file = target / f"{NOTEBOOK}.ipynb"
    file.write_bytes(notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode())


def inbound(folder: Path, student: str) -> Iterator[Path]:
    yield from (folder / "exchange" / folder.name / "inbound").glob(f"{student}+{STAGE}+*")


def live_a_course(parent: Path) -> Run:
    """init, generate, release, fetch, submit, collect, autograde, feedback, export."""
    run = Run(parent / "my course")
    create(run.folder, catalog.load(checks=False).stages, "en")
    run.nbgrader("generate_assignment", STAGE)
    run.nbgrader("release_assignment", STAGE)
    learner = Run(parent / "learner")  # the student whose name is this account's
    learner.folder.mkdir()
    shutil.copy(run.folder / "nbgrader_config.py", learner.folder)
    options = [f"--Exchange.root={run.folder / 'exchange'}", f"--course={run.folder.name}"]
    learner.nbgrader("fetch_assignment", STAGE, *options)
    file = learner.folder / STAGE / f"{NOTEBOOK}.ipynb"
    nbformat.write(solved(nbformat.read(file, 4)), file)
    learner.nbgrader("submit", STAGE, *options)
    for student, notebook in class_of_twelve(run.folder, run.released()).items():
        hand_in(run.folder, student, notebook)
    (next(inbound(run.folder, "idle")) / "loot.txt").symlink_to(run.folder / "secret.key")
    run.nbgrader("collect", STAGE)
    run.nbgrader("autograde", STAGE)
    run.nbgrader("generate_feedback", STAGE)
    run.nbgrader("release_feedback", STAGE)
    run.export()
    return run
