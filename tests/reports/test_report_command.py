"""`flashdojo report`: the files, what is said about them, and one clear line when it cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from grader import results
from grader.cli import main

pytestmark = pytest.mark.xdist_group("reports")  # one grading of the class serves them all


@pytest.fixture
def result(document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return file


def test_the_fixture_is_a_valid_document(document: dict[str, Any]) -> None:
    results.validate(document)


def test_everything_lands_beside_the_document(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(result)]) == 0
    assert sorted(path.name for path in Path("report").iterdir()) == [
        "class.html", "junit.xml", "scores.csv", "submissions",
    ]  # fmt: skip
    assert len(list(Path("report/submissions").glob("*.html"))) == 9
    said = capsys.readouterr()
    assert "class report: report/class.html" in said.out
    assert said.err == ""


def test_each_part_alone(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--junit", "j.xml", "--csv", "c.csv", "--format", "canvas", "--class", "deep/class.html"]
    assert main(["report", str(result), *arguments]) == 0
    assert sorted(path.name for path in Path().iterdir()) == ["c.csv", "deep", "j.xml", "result.json"]
    assert capsys.readouterr().err.startswith("no score for 赵 六: ")


def test_a_report_is_made_again_in_the_same_place(result: Path) -> None:
    assert main(["report", str(result), "--out", "r"]) == 0
    first = {path: path.read_bytes() for path in Path("r").rglob("*") if path.is_file()}
    assert main(["report", str(result), "--out", "r"]) == 0
    assert {path: path.read_bytes() for path in Path("r").rglob("*") if path.is_file()} == first


def test_the_gradebooks_own_table(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("export.csv").write_text("Student,ID,Section,Stage 2: FlashAttention rebuilt\nada,1,S,\nbea,2,S,\n", "utf-8")
    assert main(["report", str(result), "--csv", "out.csv", "--roster", "export.csv"]) == 0
    assert Path("out.csv").read_text("utf-8-sig").splitlines()[1] == "ada,1,S,105"
    said = capsys.readouterr().err
    assert "1 in the table have no score." in said
    assert "no score for dana: is not in the table" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema_version": 2}', "schema version 2, this program reads 1"),
        ('{"schema_version": "x\\u001b[31m"}', "schema version x, this program reads 1"),
        ("[1]", "not a result document"),
        ("{}", "not a result document"),
        ("no json", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"schema_version": 1}', "damaged at /"),
    ],
)
def test_another_document_is_refused_in_one_line(
    result: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    result.write_text(text, encoding="utf-8")
    assert main(["report", str(result)]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert said in out.err
    assert out.err.count("\n") == 1
    assert not Path("report").exists()


def test_a_folder_of_documents_is_read_as_one(result: Path, document: dict[str, Any]) -> None:
    folder = Path("reports")
    folder.mkdir()
    for place, entry in enumerate(document["submissions"]):
        one = {**document, "submissions": [entry]}
        if place == 3:
            one["device"] = {**one["device"], "isolation": ["process", "limits"]}
            one["notice"] = {"zh": "没有完全隔离。", "en": "Not fully confined."}
        (folder / f"{place}.json").write_text(json.dumps(one), encoding="utf-8")
    assert main(["report", "reports", "--out", "o"]) == 0
    page = Path("o/class.html").read_text("utf-8")
    assert "Not fully confined." in page
    assert "seccomp" not in page  # what stood around some of them only is not said of all
    assert len(list(Path("o/submissions").iterdir())) == len(document["submissions"])


def test_a_wrong_sum_is_refused(result: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    document["submissions"][0]["score"] += 7
    result.write_text(json.dumps(document), encoding="utf-8")
    assert main(["report", str(result)]) == 2
    assert "is not the sum of its parts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.json"], "no such path: gone.json"),
        (["result.json", "--format", "xml", "--csv", "c"], "--format takes plain, canvas, moodle"),
        (["result.json", "--roster", "x.csv"], "--roster goes with --csv"),
        (["result.json", "--csv", "c", "--column", "x"], "--column with --roster"),
        (["result.json", "--csv", "c", "--roster", "gone.csv"], "no such path: gone.csv"),
        (["result.json", "--out", "result.json"], "result.json cannot be used"),
        (["result.json", "--out", "result.json/x"], "result.json/x cannot be used"),
        (["result.json", "--junit", "."], ". cannot be used"),
        (["empty"], "no result document (.json) in this folder"),
    ],
)
def test_wrong_usage(result: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    Path("empty").mkdir()
    assert main(["report", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_the_old_report(
    result: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["report", str(result), "--junit", "j.xml"]) == 0
    before = Path("j.xml").read_bytes()
    real = os.fdopen
    monkeypatch.setattr(
        os,
        "fdopen",
        lambda handle, *rest, **more: (os.close(handle), real(os.open("/dev/full", os.O_WRONLY), *rest, **more))[1],
    )
    assert main(["report", str(result), "--junit", "j.xml"]) == 3
    assert "the disk is full" in capsys.readouterr().err
    assert Path("j.xml").read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["j.xml", "result.json"]
