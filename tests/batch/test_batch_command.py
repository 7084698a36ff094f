"""``grade`` on what teachers really have in hand: downloads with Chinese names, the same id twice, interruptions."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grader import results
from grader.batch import cache, run
from grader.cli import main

TINY = "def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):\n    return {}\n"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "kept"))


def graded(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], list[str]]:
    """Exit code, document, and what was said beside it."""
    code = main(["grade", *arguments, "--stage", "s1", "--json"])
    said = capsys.readouterr()
    document = json.loads(said.out)
    results.validate(document)
    return code, document, said.err.splitlines()


def test_a_download_is_graded_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "王 伟_11_assignsubmission_file_/我的 作业.py": "王 伟_11",
        "Ann Lee_12_assignsubmission_file_/a.py": "Ann Lee_12",
        "Zoe_13_assignsubmission_file_/essay.docx": "Zoe_13",
    }
    with zipfile.ZipFile("作业 一.zip", "w") as file:
        for number, name in enumerate(names):
            file.writestr(name, f"# {number}\n{TINY}")
        file.writestr("../out.py", TINY)
    code, document, notes = graded(capsys, "作业 一.zip")
    rows = {row["student"]: row for row in document["submissions"]}
    assert code == 2
    assert {name: row["status"] for name, row in rows.items()} == {
        "王 伟_11": "graded", "Ann Lee_12": "graded", "Zoe_13": "unreadable", "out": "unreadable",
    }  # fmt: skip
    assert rows["王 伟_11"]["path"] == "作业 一.zip/王 伟_11_assignsubmission_file_/我的 作业.py"
    assert "no .ipynb or .py file was handed in" in rows["Zoe_13"]["message"]["en"]
    assert "its name leads out of the archive" in rows["out"]["message"]["en"]
    assert notes == []
    assert not Path("out.py").exists()
    assert not Path("../out.py").exists()


def test_two_under_one_id_are_both_graded_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for group in ("a", "b"):
        Path(group).mkdir()
        Path(group, "wang.py").write_text(f"# {group}\n{TINY}")
    code, document, notes = graded(capsys, "a", "b")
    assert code == 1
    assert [row["student"] for row in document["submissions"]] == ["wang", "wang"]
    assert all(row["repairs"][-1]["en"].startswith("wang has 2 submissions.") for row in document["submissions"])
    assert "wang.py" not in document["submissions"][0]["repairs"][-1]["en"]  # a learner reads it too
    assert notes == [
        "note: 2 submissions come under the id wang: a/wang.py, b/wang.py. Each is graded; look whose they are."
    ]


def test_who_interrupts_is_told_that_nothing_is_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("class").mkdir()
    for name in ("ann", "bob", "cat"):
        Path("class", f"{name}.py").write_text(f"# {name}\n{TINY}")
    done = run._Batch.done

    def interrupt(self: Any, index: int, record: Any) -> None:
        done(self, index, record)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run._Batch, "done", interrupt)
        assert main(["grade", "class", "--stage", "s1"]) == 130
    assert "interrupted. What is graded is kept: run the same command again, and it goes on." in capsys.readouterr().err
    assert len(list(Path("kept").rglob("*.json"))) == 1
    assert len(graded(capsys, "class")[1]["submissions"]) == 3
    assert len(list(Path("kept").rglob("*.json"))) == 3


@pytest.mark.parametrize(("options", "where"), [([], "kept"), (["--out", "o"], "o/.cache")])
def test_where_results_are_kept(options: list[str], where: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ann.py").write_text(TINY)
    graded(capsys, "ann.py", "--no-cache", *options)
    assert list(Path().rglob("??/*.json")) == []
    first = graded(capsys, "ann.py", *options)
    (kept,) = Path(where).glob("??/*.json")
    assert graded(capsys, "ann.py", *options) == first
    assert kept.stat().st_mode & 0o077 == 0
    assert Path(where).stat().st_mode & 0o077 == 0
