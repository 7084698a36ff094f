"""Is every file a learner may hand in either read as a program or refused with one clear sentence?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import v3, v4

from grader.reading import submission
from grader.reading.magics import neutralise
from grader.reading.submission import Program, Unreadable, read


def notebook(path: Path, *cells: Any, **metadata: Any) -> Path:
    made = [v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    nbformat.write(v4.new_notebook(cells=made, metadata=metadata), path)
    return path


def graded(grade_id: str, source: str, cell_type: str = "code") -> Any:
    metadata = {"nbgrader": {"grade_id": grade_id, "solution": True, "cell_type": "code", "schema_version": 3}}
    make = v4.new_code_cell if cell_type == "code" else v4.new_raw_cell
    return make(source, metadata=metadata)


def sources(program: Program) -> list[tuple[int | None, str]]:
    return [(cell.number, cell.source) for cell in program.cells]


def refused(path: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        read(path)
    message = caught.value.message
    assert message.zh != message.en
    assert "\n" not in message.zh + message.en
    return message.en


def test_a_script_is_one_cell_without_number(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("\ufeffx = 1\r\ny = '中'\r\n".encode())
    program = read(path)
    assert sources(program) == [(None, "x = 1\ny = '中'\n")]
    assert program.stage is None
    assert len(program.sha256) == 64


def test_cells_are_numbered_as_the_learner_counts_them(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", v4.new_markdown_cell("# t"), "a = 1", v4.new_raw_cell("raw"), "b = 2")
    assert sources(read(path)) == [(2, "a = 1"), (4, "b = 2")]


def test_the_notebook_says_its_stage_and_language(tmp_path: Path) -> None:
    program = read(notebook(tmp_path / "a.ipynb", "a = 1", flashdojo={"stage": "s2", "lang": "zh"}))
    assert (program.stage, program.language) == ("s2", "zh")
    program = read(notebook(tmp_path / "a.ipynb", "a = 1", flashdojo={"stage": 2, "lang": ["zh"]}))
    assert (program.stage, program.language) == (None, None)


@pytest.mark.parametrize("role", ["check", "picture", "given-check"])
def test_cells_that_only_look_are_left_out(tmp_path: Path, role: str) -> None:
    looking = v4.new_code_cell("check('s1')", metadata={"flashdojo": {"role": role}})
    assert sources(read(notebook(tmp_path / "a.ipynb", "a = 1", looking))) == [(1, "a = 1")]


def test_an_old_notebook_is_upgraded(tmp_path: Path) -> None:
    old = v3.new_notebook(worksheets=[v3.new_worksheet(cells=[v3.new_code_cell(input="x = 1")])])
    path = tmp_path / "old.ipynb"
    path.write_text(v3.writes_json(old) if hasattr(v3, "writes_json") else json.dumps(old), "utf-8")
    assert [source for _, source in sources(read(path))] == ["x = 1"]


def test_of_two_cells_with_one_grade_id_the_later_counts(tmp_path: Path) -> None:
    cells = graded("s1-softmax", "def softmax(): return 1"), "x = 1", graded("s1-softmax", "def softmax(): return 2")
    program = read(notebook(tmp_path / "a.ipynb", *cells))
    assert sources(program) == [(2, "x = 1"), (3, "def softmax(): return 2")]
    assert "cells 1 and 3" in program.repairs[0].en


def test_an_answer_cell_is_known_by_our_own_metadata_too(tmp_path: Path) -> None:
    def answer(source: str, make: Any = v4.new_code_cell) -> Any:
        return make(source, metadata={"flashdojo": {"exercise": "s1-softmax", "role": "answer"}})

    program = read(notebook(tmp_path / "a.ipynb", answer("def softmax(): 1"), answer("def softmax(): 2")))
    assert sources(program) == [(2, "def softmax(): 2")]
    assert sources(read(notebook(tmp_path / "b.ipynb", answer("x = 1", v4.new_markdown_cell)))) == [(1, "x = 1")]


def test_the_halves_of_a_split_cell_both_count(tmp_path: Path) -> None:
    last = graded("s1-softmax", "def softmax(): return helper() + ONE")
    for first in ("def helper(): return 1", "ONE = 1", "import math"):
        assert len(read(notebook(tmp_path / "a.ipynb", graded("s1-softmax", first), last)).cells) == 2


def test_a_repeated_cell_is_said(tmp_path: Path) -> None:
    program = read(notebook(tmp_path / "a.ipynb", "def f(): pass", "import math", "import math", "def f(): pass"))
    assert [repair.en for repair in program.repairs] == ["cell 4 repeats cell 1."]
    assert len(program.cells) == 4


def test_an_answer_turned_into_a_raw_cell_is_still_read(tmp_path: Path) -> None:
    program = read(notebook(tmp_path / "a.ipynb", graded("s1-softmax", "x = 1", "raw")))
    assert sources(program) == [(1, "x = 1")]
    assert "no longer a code cell" in program.repairs[0].en


def test_a_syntax_error_is_a_property_of_its_cell(tmp_path: Path) -> None:
    program = read(notebook(tmp_path / "a.ipynb", "x = 1", "def f(:\n  pass"))
    assert [cell.tree is None for cell in program.cells] == [False, True]
    assert program.cells[1].error is not None
    assert program.cells[1].error.lineno == 1


def test_a_cell_of_another_language_is_said_and_not_run(tmp_path: Path) -> None:
    program = read(notebook(tmp_path / "a.ipynb", "%%bash\nrm -rf x\n", "x = 1"))
    assert sources(program)[0] == (1, "\n\n")
    assert "%%bash" in program.repairs[0].en


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("x = 1\n!ls\ny = 2", "x = 1\npass\ny = 2"),
        ("%matplotlib inline\nimport os", "pass\nimport os"),
        ("files = !ls", "files = []"),
        ("here = %pwd", "here = []"),
        ("?print", "pass"),
        ("x.y?", "pass"),
        ("!ls \\\n  -l\nx = 1", "pass\n\nx = 1"),
        ("%time x = f(1)\ny = 2", "x = f(1)\ny = 2"),
        ("%timeit -n 10 f(1)", "f(1)"),
        ("def f():\n    %time y = 1\n    return y", "def f():\n    y = 1\n    return y"),
        ("if a:\n    !ls\n", "if a:\n    pass\n"),
        ("%%time\ndef f():\n    return 1", "\ndef f():\n    return 1"),
        ("\n%%capture out\nx = 1", "\n\nx = 1"),
        (">>> a = 1\n>>> b = 2", "a = 1\nb = 2"),
        ("a = 7 %4", "a = 7 %4"),
        ("s = '''\n%time\n!ls\n'''", "s = '''\n%time\n!ls\n'''"),
    ],
)
def test_what_ipython_adds_is_taken_out_and_lines_stay(source: str, plain: str) -> None:
    assert neutralise(source)[0].rstrip("\n") == plain.rstrip("\n")
    assert neutralise(source)[1] is None


@pytest.mark.parametrize("source", ["def f(:", "a\n=%", "x = (", "'''"])
def test_unparsable_source_comes_back_for_its_error_to_be_shown(source: str) -> None:
    assert neutralise(source) == (source, None)


def test_no_such_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.py")
    assert "no such file" in refused(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.py", b"", "empty"),
        ("a.py", b" \n\n\t", "empty"),
        ("a.ipynb", b"", "empty"),
        ("a.py", "# 中文".encode("gbk"), "not UTF-8 (at byte 2)"),
        ("a.py", "x = 1".encode("utf-16"), "not UTF-8"),
        ("a.py", b"x = 1\0", "NUL"),
        ("a.py", b"x" * (submission.MAX_CODE + 1), "512 KB"),
        ("a.py", b"x" * (submission.MAX_FILE + 1), "20 MB"),
        ("a.ipynb", b"x = 1", "not a Jupyter notebook"),
        ("a.ipynb", b"[1, 2]", "not a Jupyter notebook"),
        ("a.ipynb", b"{}", "not a Jupyter notebook"),
        ("a.ipynb", b'{"nbformat": 4, "cells": 3}', "not a Jupyter notebook"),
        ("a.ipynb", b'{"nbformat": 3}', "not a Jupyter notebook"),
        ("a.ipynb", b'{"nbformat": 1' + b"0" * 5000 + b"}", "not a Jupyter notebook"),
        ("a.ipynb", b"[" * 100_000, "not a Jupyter notebook"),
        ("a.ipynb", b'{"nbformat": 4, "cells": []}', "no code"),
        ("a.ipynb", b'{"nbformat": 4, "cells": [1, {"cell_type": "code", "source": [1]}]}', "no code"),
        ("a.ipynb", b'{"nbformat": 4, "cells": [], "metadata": {"language_info": {"name": "R"}}}', "not a Python"),
        ("a.txt", b"x = 1", "only .ipynb and .py"),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_is_refused_with_one_sentence(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert told in refused(path)


def test_things_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert "folder" in refused(tmp_path / "folder.py")
    assert "not a regular file" in refused(tmp_path / "pipe.py")
    assert "symbolic link to itself" in refused(tmp_path / "loop.py")
    assert "no such file" in refused(tmp_path / "folder.py" / "x" / "a.py")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1", "utf-8")
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything: let the system say no

        def denied(*args: Any, **kwargs: Any) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", denied)
    assert "no permission" in refused(path)


def test_a_name_gives_a_terminal_no_orders() -> None:
    name = "a\x1b]0;owned\x07\n::error::\u202ecod.py"
    assert submission.shown(name) == "a\ufffd]0;owned\ufffd\ufffd::error::\ufffdcod.py"


def test_a_name_of_any_bytes_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.py")
    path.write_bytes(b"")
    refused(path).encode("utf-8")


def test_lone_surrogates_do_not_travel(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = \\"\\ud800\\""}]}', "utf-8")
    read(path).cells[0].source.encode("utf-8")


KEYS = ["cells", "metadata", "source", "cell_type", "nbgrader", "flashdojo", "grade_id", "language_info"]
LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@settings(max_examples=150, deadline=None)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner)))
def test_any_json_in_place_of_cells_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "a.ipynb"
    cell = {"cell_type": "code", "source": value, "metadata": value}
    path.write_text(json.dumps({"nbformat": 4, "metadata": value, "cells": [value, cell]}), "utf-8")
    try:
        cells = read(path).cells
    except Unreadable as error:
        cells = [error.message]
    assert cells


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="%!?=()\\'\"\n \tab:#>.,"))
def test_any_text_keeps_its_number_of_lines(text: str) -> None:
    assert neutralise(text)[0].count("\n") == text.count("\n")


def test_a_folder_gives_its_submissions_in_order(tmp_path: Path) -> None:
    for name in ("b.py", "a.ipynb", "notes.txt", ".hidden.py", "sub/c.py", ".git/d.py", "__pycache__/e.py",
                 ".ipynb_checkpoints/f.ipynb"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", "utf-8")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in submission.collect(tmp_path)]
    assert found == ["a.ipynb", "b.py", "sub/c.py"]


def test_a_link_out_of_the_folder_is_noticed(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret.py").write_text("x", "utf-8")
    (inside / "a.py").symlink_to(tmp_path / "secret.py")
    (inside / "b.py").write_text("x", "utf-8")
    assert submission.leads_outside(inside / "a.py", inside)
    assert not submission.leads_outside(inside / "b.py", inside)
