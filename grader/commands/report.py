"""``report``: pages, tables and XML from a result document."""

from __future__ import annotations

from pathlib import Path

from grader.commands.base import note, short, stop, tell
from grader.exit_codes import PASSED
from grader.text import Text, say

FOLDER = "report"  # beside the document, when no option says what is wanted


def report(
    file: Path,
    out: Path | None,
    junit_file: Path | None,
    csv_file: Path | None,
    csv_format: str,
    class_file: Path | None,
) -> int:
    from grader.reports import class_page, junit, read, tables
    from grader.reports.write import PAGES, save, write_reports

    if csv_format not in tables.FORMATS:
        stop(say("--format 只能是 plain、canvas 或 moodle", "--format takes plain, canvas or moodle"))
    document = read.read_document(file)
    if not (out or junit_file or csv_file or class_file):
        out = file.parent / FOLDER
    if out:
        written = write_reports(document, out, sources=[file.parent])
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
        if csv_format == "plain":
            save(csv_file, tables.plain(document), encoding="utf-8-sig")
        else:
            table = tables.canvas(document) if csv_format == "canvas" else tables.moodle(document)
            save(csv_file, table.text)
            for student, why in table.left_out:
                note(say("没有写入成绩：{student}：{why}", "no score for {student}: {why}", student=student, why=why))
        _told(say("成绩表", "scores"), csv_file)
    return PASSED


def _told(what: Text, where: Path) -> None:
    tell(say("{what}：{where}", "{what}: {where}", what=what, where=short(where)))
