"""``report``: pages, tables and XML from a result document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.commands.base import note, short, stop, tell
from grader.exit_codes import PASSED
from grader.text import Text, listed, say
from grader.views.progress import waiting

FORMATS = ("plain", "canvas", "moodle")
FOLDER = "report"  # beside the document, when no option says what is wanted


def report(
    file: Path,
    out: Path | None,
    junit_file: Path | None,
    csv_file: Path | None,
    csv_format: str,
    class_file: Path | None,
    roster_file: Path | None,
    column: str | None,
) -> int:
    from grader.reports import class_page, junit, read
    from grader.reports.write import PAGES, save, write_reports

    if csv_format not in FORMATS:
        stop(say("--format 只能是 {it}", "--format takes {it}", it=listed(FORMATS)))
    if (roster_file or column) and not (roster_file and csv_file):
        stop(
            say(
                "--roster 要与 --csv 一起用，--column 要与 --roster 一起用。",
                "--roster goes with --csv, --column with --roster.",
            )
        )
    with waiting(say("读取结果文档", "reading the result document")):
        document = read.read_document(file)
    if not (out or junit_file or csv_file or class_file):
        out = file.parent / FOLDER
    if out:
        with waiting(say("写报告", "writing the reports")):
            written = write_reports(document, out, sources=[file.parent])
        if written.class_page:
            _told(say("班级报告", "class report"), written.class_page)
        pages = say("每份提交一页（{n} 页）", "a page for each submission ({n})", n=len(written.pages))
        _told(pages, out / PAGES)
        _told(say("成绩表", "scores"), written.scores)
        _told(say("JUnit XML", "JUnit XML"), written.junit)
    if class_file:
        _told(say("班级报告", "class report"), save(class_file, class_page.page(document)))
    if junit_file:
        _told(say("JUnit XML", "JUnit XML"), save(junit_file, junit.junit(document)))
    if csv_file:
        _table(document, csv_file, csv_format, roster_file, column)
    return PASSED


def _table(document: dict[str, Any], file: Path, kind: str, roster_file: Path | None, column: str | None) -> None:
    from grader.reports import roster, tables
    from grader.reports.write import BOM, save

    left_out: list[tuple[str, Text]] = []
    if roster_file:
        filled = roster.fill(roster_file, document, column)
        save(file, BOM + filled.text)
        left_out = filled.left_out
        if filled.without:
            note(say("名单里有 {n} 人没有成绩。", "{n} in the table have no score.", n=filled.without))
    elif kind == "plain":
        save(file, BOM + tables.plain(document))
    else:
        table = tables.canvas(document) if kind == "canvas" else tables.moodle(document)
        save(file, table.text)
        left_out = table.left_out
    for student, why in left_out:
        note(say("没有写入成绩：{student}：{why}", "no score for {student}: {why}", student=student, why=why))
    _told(say("成绩表", "scores"), file)


def _told(what: Text, where: Path) -> None:
    tell(say("{what}：{where}", "{what}: {where}", what=what, where=short(where)))
