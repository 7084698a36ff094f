"""Does an annotation land on the line of the file that holds the line of the cell?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.pipeline.places import Places
from grader.proving.samples import sample_files
from grader.subject import Where

NOTEBOOKS = [file for kind in ("right", "wrong") for file in sample_files(kind) if file.suffix == ".ipynb"]
CELLS = [["a = 1\n", "b = 2"], ["c = 3"]]


def notebook(*cells: object) -> dict:
    return {
        "metadata": {"cells": "no", "x": {"cells": [{"source": ["decoy"]}]}},
        "cells": [{"cell_type": "code", "outputs": [{"source": ["decoy"]}], "source": source} for source in cells],
        "nbformat": 4,
    }


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "x.ipynb"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_every_line_of_every_cell_of_real_notebooks(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    places, checked = Places(file), 0
    for number, cell in enumerate(json.loads("\n".join(lines))["cells"], 1):
        for line, text in enumerate("".join(cell["source"]).split("\n"), 1):
            if text:
                shown = json.loads(lines[places.line(Where(number, line)) - 1].strip().rstrip(","))
                assert shown.rstrip("\n") == text
                checked += 1
    assert checked > 20


@pytest.mark.parametrize("indent", [1, 4, "\t"])
def test_any_indentation(tmp_path: Path, indent: object) -> None:
    file = written(tmp_path, json.dumps(notebook(*CELLS), indent=indent))
    lines = file.read_text("utf-8").splitlines()
    for cell, line, text in ((1, 1, "a = 1"), (1, 2, "b = 2"), (2, 1, "c = 3")):
        assert text in lines[Places(file).line(Where(cell, line)) - 1]


def test_a_source_in_one_string_is_one_line(tmp_path: Path) -> None:
    file = written(tmp_path, json.dumps(notebook("a = 1\nb = 2\nc = 3", ["d = 4\n", "e", " = 5\n", "f = 6"]), indent=1))
    lines = file.read_text("utf-8").splitlines()
    assert {Places(file).line(Where(1, line)) for line in (1, 2, 3, 99)} == {
        next(number for number, line in enumerate(lines, 1) if "a = 1" in line)
    }
    for line, text in ((1, '"d = 4'), (2, '"e"'), (3, '"f = 6"'), (9, '"f = 6"')):
        assert text in lines[Places(file).line(Where(2, line)) - 1]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"cells": 3}', '{"cells": [3]}', '{"cells": [{"source": {}}]}', '{"cells": [{}]}',
        '{"cells": [{"source": ["a"', '{"a" "b"}', "\0",
    ],
)  # fmt: skip
def test_what_is_no_notebook_has_a_first_line(tmp_path: Path, text: str) -> None:
    assert Places(written(tmp_path, text)).line(Where(1, 5)) == 1


def test_a_cell_that_is_not_there(tmp_path: Path) -> None:
    places = Places(written(tmp_path, json.dumps(notebook(*CELLS), indent=1)))
    assert [places.line(place) for place in (None, Where(0, 1), Where(9, 1), Where(None, 1))] == [1, 1, 1, 1]


def test_a_program_is_its_own_map(tmp_path: Path) -> None:
    assert Places(tmp_path / "x.py").line(Where(None, 17)) == 17
