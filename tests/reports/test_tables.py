"""Do the tables hold every score, in the columns that gradebooks read, and say whom they leave out?"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from conftest import entry_of

from grader.reports import roster, tables
from grader.reports.read import Unusable

pytestmark = pytest.mark.xdist_group("reports")  # one grading of the class serves them all

TITLE = "Stage 2: FlashAttention rebuilt"
CANVAS = f"""\
Student,ID,SIS User ID,SIS Login ID,Section,{TITLE} (9912),Final Score
    Points Possible,,,,,100,(read only)
"Lovelace, Ada",11,a11,ada@uni.edu,S1,,88
"Wei, Chen",12,x12,cw,S1,3,1
"Zhao, Liu",13,x13,赵六,S1,55,
"Nobody, X",14,x14,nx,S1,5,
"""
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments
Participant 31,Ada Lovelace,ada@uni.edu,Submitted,,100.00,-,
Participant 32,Wei Chen,cw@uni.edu,Submitted,7,100.00,-,
"""


def rows(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def score(document: dict[str, Any], student: str) -> float:
    return entry_of(document, student)["score"]


def test_the_plain_table_has_a_row_for_each_submission(document: dict[str, Any]) -> None:
    head, *body = rows(tables.plain(document, lang="en"))
    assert [row[0] for row in body] == [entry["student"] for entry in document["submissions"]]
    by_student = {row[0]: dict(zip(head, row)) for row in body}
    assert float(by_student["dana"]["score"]) == score(document, "dana")
    assert by_student["dana"]["s2-update"] == "0"
    assert by_student["dana"]["remarks"].startswith("update: acc is not rescaled")
    assert by_student["赵 六"]["score"] == ""
    assert "not a Jupyter notebook" in by_student["赵 六"]["remarks"]


def test_canvas_finds_its_columns(document: dict[str, Any]) -> None:
    table = tables.canvas(document)
    head, most, *body = rows(table.text)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", TITLE]
    assert most == ["    Points Possible", "", "", "", "", "105"]
    assert ["dana", "", "dana", "dana", "", f"{score(document, 'dana'):g}"] in body
    assert "赵 六" not in [row[0] for row in body]
    assert [student for student, _ in table.left_out] == ["赵 六"]


def test_canvas_gets_its_own_number_back_from_a_file_that_it_named(document: dict[str, Any]) -> None:
    entry_of(document, "dana").update(student="dana_12", path="all.zip/dana_12_4567_hw.ipynb")
    assert ["dana_12", "12", "dana_12", "dana_12"] in [row[:4] for row in rows(tables.canvas(document).text)]


def test_moodle_gets_grade_and_feedback(document: dict[str, Any]) -> None:
    head, *body = rows(tables.moodle(document, lang="zh").text)
    assert head == ["Username", "ID number", TITLE, f"{TITLE} (feedback)"]
    dana = next(row for row in body if row[0] == "dana")
    assert dana[2] == f"{score(document, 'dana'):g}"
    assert "acc 没有重新缩放" in dana[3]


def test_an_id_with_two_submissions_gets_no_score(document: dict[str, Any]) -> None:
    entry_of(document, "dana")["student"] = "chen"
    for table in (tables.canvas(document), tables.moodle(document)):
        assert "chen" not in [row[0] for row in rows(table.text)]
        assert dict(table.left_out)["chen"].en == "has 2 submissions"
    assert [row[0] for row in rows(tables.plain(document))].count("chen") == 2


def test_no_cell_runs_as_a_formula(document: dict[str, Any]) -> None:
    entry_of(document, "dana")["student"] = "=HYPERLINK(1)"
    entry_of(document, "ivan")["student"] = "\n＝HYPERLINK(2)"
    entry_of(document, "fumi")["student"] = "＝HYPERLINK(3)"
    for text in (tables.plain(document), tables.canvas(document).text, tables.moodle(document).text):
        assert not any(cell.startswith(tables.FORMULA) for row in rows(text) for cell in row)
        assert {"'=HYPERLINK(1)", "'\n＝HYPERLINK(2)", "'＝HYPERLINK(3)"} <= {row[0] for row in rows(text)}


def test_a_gradebook_of_canvas_is_filled(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    file.write_text(CANVAS, encoding="utf-8-sig")
    filled = roster.fill(file, document)
    before, after = rows(CANVAS), rows(filled.text)
    assert after[2] == [*before[2][:5], f"{score(document, 'ada'):g}", "88"]  # by the part of the login before the @
    assert after[:2] == before[:2]
    assert after[3:] == before[3:]  # nobody else is in it, and what stood there stays
    assert {"chen", "dana"} <= {student for student, _ in filled.left_out}
    assert filled.without == 3


@pytest.mark.parametrize(
    "name",
    ["chenwei", "Wei Chen", "12", "X12", "cw", "chenwei_12", "chenwei_99"],
    ids=["last first", "name", "id", "sis", "login", "download", "download by someone renumbered"],
)
def test_a_learner_is_found_by_anything_that_names_them(document: dict[str, Any], tmp_path: Path, name: str) -> None:
    entry_of(document, "chen")["student"] = name
    file = tmp_path / "export.csv"
    file.write_text(CANVAS.replace("Wei, Chen", "Chen, Wei" if name.startswith("chenwei") else "Wei, Chen"), "utf-8")
    assert rows(roster.fill(file, document).text)[3][5] == f"{score(document, name):g}"


def test_a_worksheet_of_moodle_is_filled(document: dict[str, Any], tmp_path: Path) -> None:
    entry_of(document, "chen")["student"] = "32"
    entry_of(document, "赵 六").update(student="32", stage="s1")  # what else chen handed in takes no feedback away
    file = tmp_path / "Grades.csv"
    file.write_text(MOODLE, encoding="utf-8")
    head, ada, chen = rows(roster.fill(file, document, lang="en").text)
    assert ada[head.index("Grade")] == f"{score(document, 'ada'):g}"
    assert chen[head.index("Grade")] == f"{score(document, '32'):g}"
    assert chen[head.index("Feedback comments")].startswith("forward: The short tile at the end is dropped")


def test_nobody_gets_anothers_score(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    file.write_text(CANVAS.replace(",x13,", ",ada,"), encoding="utf-8")  # two rows that ada could be
    filled = roster.fill(file, document)
    assert rows(filled.text)[4][5] == f"{score(document, 'ada'):g}"  # an id that is the same beats half an address
    file.write_text(CANVAS.replace(",x13,", ",ada,").replace(",x14,", ",ADA,"), encoding="utf-8")
    filled = roster.fill(file, document)
    assert dict(filled.left_out)["ada"].en == "fits 2 rows of the table"
    assert rows(filled.text)[2:] == rows(CANVAS.replace(",x13,", ",ada,").replace(",x14,", ",ADA,"))[2:]


def test_the_number_of_a_download_tells_namesakes_apart_and_is_nobody_alone(
    document: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "export.csv"
    file.write_text(CANVAS.replace("Zhao, Liu", "Wei, Chen"), encoding="utf-8")
    entry_of(document, "chen")["student"] = "weichen_13"
    entry_of(document, "dana")["student"] = "lab_14"  # somebody else has the number 14
    entry_of(document, "fumi")["student"] = "zhaoliu_11"
    filled = roster.fill(file, document)
    assert [row[5] for row in rows(filled.text)[3:]] == ["3", f"{score(document, 'weichen_13'):g}", "5"]
    assert {"lab_14", "zhaoliu_11"} <= {student for student, _ in filled.left_out}


def test_a_semicolon_stays_a_semicolon(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    file.write_text(CANVAS.replace('"Lovelace, Ada"', "ada").replace(",", ";"), encoding="utf-8")
    after = rows(roster.fill(file, document).text, ";")
    assert after[2][5] == f"{score(document, 'ada'):g}"


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        (CANVAS.encode(), "Foo", "no column is called Foo; choose one with --column: Stage 2"),
        (b"Student,ID\n", None, "no column is called Stage 2"),
        (b"\xff\xfe,", None, "not a CSV in UTF-8"),
        (b"", None, "not a CSV in UTF-8"),
    ],
)
def test_a_table_that_cannot_be_filled_says_why(
    document: dict[str, Any], tmp_path: Path, text: bytes, column: str | None, said: str
) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes(text)
    with pytest.raises(Unusable) as caught:
        roster.fill(file, document, column)
    assert said in caught.value.message.en
