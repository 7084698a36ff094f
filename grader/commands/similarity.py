"""``instructor similarity``: what is worth a look, in the terminal, as a page or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.commands.base import note, print_json, short, stop, tell
from grader.exit_codes import PASSED, USAGE
from grader.text import Text, listed, say
from grader.views.progress import progress_bar
from grader.views.terminal import console

if TYPE_CHECKING:
    from grader.integrity.survey import Pair, Survey

PAGE = "similarity.html"
SHOWN = 40  # pairs in the terminal


def similarity(targets: list[Path], out: Path | None, as_json: bool) -> int:
    from grader.batch import intake
    from grader.integrity.survey import survey

    with progress_bar(say("比较", "comparing")) as on_progress:
        found = survey(intake.collect(targets), on_progress)
    for entry, why in found.unread:
        note(say("没有比较 {student}：{why}", "{student} was not compared: {why}", student=entry.student, why=why))
    if not found.papers:
        stop(say("没有可以比较的提交。", "there are no submissions to compare."))
    if out is not None:
        from grader.integrity.page import page
        from grader.reports.write import save

        file = save(out / PAGE, page(found))
    if as_json:
        print_json(_document(found))
    else:
        _show(found)
        if out is not None:
            tell(say("两份代码对照：{file}", "both programs side by side: {file}", file=short(file)))
    return USAGE if found.unread else PASSED


def _show(found: Survey) -> None:
    title = say("{n} 份提交。以下是线索，不是结论。", "{n} submissions. Hints, not verdicts.", n=len(found.papers))
    tell(title)
    for group in found.groups:
        tell(say("{n} 人连成一组：{names}", "a group of {n}: {names}", n=len(group), names=listed(group)))
    _table(say("学员之间", "between learners"), found.pairs)
    _table(say("与已公布的解答", "with the published solutions"), found.published)


def _table(title: Text, pairs: Sequence[Pair]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text as Styled

    from grader.integrity.page import names, percent

    if not pairs:
        tell(say("{title}：没有值得看的。", "{title}: nothing worth a look.", title=title))
        return
    table = Table(box=box.SIMPLE_HEAD, title=str(title), title_justify="left", padding=(0, 1))
    for head in (say("谁", "who"), say("像谁", "like whom"), say("相同", "share"), say("单独相像的练习", "exercises")):
        table.add_column(str(head), overflow="fold")
    for pair in pairs[:SHOWN]:
        other = pair.other.student or str(say("已公布的解答", "published"))
        row = (pair.one.student, other, percent(pair.degree), str(listed(names(pair))))
        table.add_row(*map(Styled, row))
    console().print(table)
    if len(pairs) > SHOWN:
        tell(say("另有 {n} 对，见网页（--out）。", "{n} more pairs are on the page (--out).", n=len(pairs) - SHOWN))


def _document(found: Survey) -> dict[str, Any]:
    return {
        "submissions": len(found.papers),
        "groups": found.groups,
        "pairs": [_row(pair) for pair in found.pairs],
        "published": [_row(pair) for pair in found.published],
        "unreadable": [{"student": entry.student, "path": str(entry.path)} for entry, _ in found.unread],
    }


def _row(pair: Pair) -> dict[str, Any]:
    from grader.integrity.page import names

    return {
        "students": [paper.student for paper in (pair.one, pair.other) if paper.student],
        "paths": [paper.path for paper in (pair.one, pair.other) if paper.student],
        "shares": [round(pair.of_one.whole, 3), round(pair.of_other.whole, 3)],
        "exercises": names(pair),
    }
