"""The answer in a terminal, with rich: no colour when nobody looks (pipe, NO_COLOR), legible at 60 columns."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Styled

from grader.results import FINE
from grader.text import Text, language, say
from grader.views.content import COLON, MARKS, STATUS, Block, Line, blocks, ideas, number

COLOURS = {
    "passed": "green",
    "failed": "red",
    "error": "red",
    "timeout": "red",
    "blocked": "bright_black",
    "not_measured": "bright_black",
}

VERDICTS = {
    "unreadable": say("无法读取", "unreadable"),
    "failed": say("评分器自身出错", "the grader failed"),
}


def console(stream: TextIO | None = None) -> Console:
    return Console(file=stream or sys.stdout, highlight=False, soft_wrap=False)


def show_submission(
    out: Console, submission: Mapping[str, Any], *, live: bool = False, lang: str | None = None
) -> None:
    """One submission in full: every exercise, every problem with its evidence."""
    lang = lang or language()
    for repair in submission.get("repairs") or ():
        out.print(Styled(f"~ {Text(**repair).pick(lang)}", style="yellow"))
    if submission.get("message"):
        out.print(Styled(Text(**submission["message"]).pick(lang), style="red"))
    for block in blocks(submission, live=live):
        out.print(_exercise(block, lang))


def plain(submission: Mapping[str, Any], *, lang: str | None = None, width: int = 88) -> str:
    """:func:`show_submission` as text without colour."""
    text = io.StringIO()
    show_submission(Console(file=text, width=width, color_system=None, highlight=False), submission, lang=lang)
    return text.getvalue()


def show_batch(out: Console, submissions: Sequence[Mapping[str, Any]], *, lang: str | None = None) -> None:
    """A class: who, points by exercise, the wrong ideas by name."""
    lang = lang or language()
    graded = [s for s in submissions if s["exercises"]]
    ids = list(dict.fromkeys(e["id"] for s in graded for e in s["exercises"]))
    wide = out.width >= 60 + 8 * len(ids)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=False)
    table.add_column(say("谁", "who").pick(lang), overflow="fold", max_width=20)
    table.add_column(say("得分", "score").pick(lang), justify="right", no_wrap=True)
    if wide:
        for exercise in ids:
            table.add_column(exercise.split("-", 1)[1], justify="right", no_wrap=True)
    table.add_column(say("看出的问题", "what it shows").pick(lang), overflow="fold", ratio=1)
    for submission in submissions:
        table.add_row(*_row(submission, ids if wide else [], lang))
    out.print(table)


def _row(submission: Mapping[str, Any], ids: Sequence[str], lang: str) -> list[RenderableType]:
    who = Styled(submission["student"] or submission["path"])
    remark = _remark(submission, lang)
    if not submission["exercises"]:
        return [who, Styled("–", style="red"), *("" for _ in ids), remark]
    score, most = submission["score"], submission["max_score"]
    by_id = {e["id"]: e for e in submission["exercises"]}
    cells: list[RenderableType] = [who, Styled(number(score), style=_heat(score, most))]
    for name in ids:
        exercise = by_id.get(name)
        cells.append(
            Styled(number(exercise["score"]), style=_heat(exercise["score"], exercise["max_score"])) if exercise else ""
        )
    return [*cells, remark]


def _remark(submission: Mapping[str, Any], lang: str) -> Styled:
    if submission["status"] != "graded":
        verdict = VERDICTS[submission["status"]].pick(lang)
        message = Text(**submission["message"]).pick(lang) if submission.get("message") else ""
        return Styled(verdict + COLON.pick(lang) + message if message else verdict, style="red")
    named = ideas(submission)
    if named:
        return Styled("\n".join(idea.pick(lang) for idea in named[:3]) + ("\n…" if len(named) > 3 else ""))
    worst = [line for block in blocks(submission) for line in block.problems]
    if not worst:
        return Styled(say("全部正确", "all correct").pick(lang), style="green")
    return Styled(worst[0].id + COLON.pick(lang) + worst[0].message.pick(lang))


def _exercise(block: Block, lang: str) -> RenderableType:
    head = Styled()
    head.append("✓ " if block.passed else "✗ ", style="green" if block.passed else "red")
    head.append(f"{block.id}  ", style="bold")
    head.append(block.title.pick(lang))
    head.append(f"  {number(block.score)}/{number(block.max_score)}", style=_heat(block.score, block.max_score))
    parts: list[RenderableType] = [head]
    if block.untouched:
        first = block.problems[0].message.pick(lang)
        return Group(head, Padding(Styled(first, style="bright_black"), (0, 0, 0, 2), expand=False), "")
    parts += [
        Padding(_line(line, lang), (0, 0, 0, 2), expand=False) for line in block.lines if line.status != "blocked"
    ]
    if block.waiting:
        line = Styled(f"{MARKS['blocked']} {block.waiting.pick(lang)}", style=COLOURS["blocked"])
        parts.append(Padding(line, (0, 0, 0, 2), expand=False))
    return Group(*parts, "")


def _line(line: Line, lang: str) -> RenderableType:
    head = Styled()
    head.append(f"{line.mark} ", style=COLOURS[line.status])
    head.append(line.title.pick(lang))
    head.append(f"  {line.name}  {number(line.earned)}/{number(line.points)}", style="bright_black")
    if line.status == "not_measured":
        head.append(f"  {STATUS[line.status].pick(lang)}", style="bright_black")
    if line.remark:
        return Group(head, Padding(Styled(line.remark.pick(lang)), (0, 0, 0, 4), expand=False))
    if line.repeats or line.status in FINE:
        return head
    details: list[RenderableType] = []
    if line.idea:
        title, explain = line.idea
        details.append(Styled(title.pick(lang), style="bold yellow"))
        details.append(Styled(explain.pick(lang)))
    message = line.message.pick(lang)
    if line.where:
        message += say("（{it}）", "  ({it})", it=line.where.pick(lang)).pick(lang)
    details.append(Styled(message))
    details += [
        Styled(label.pick(lang) + COLON.pick(lang) + value, style="bright_black") for label, value in line.facts
    ]
    if line.tiles:
        details.append(_tiles(line, lang))
    return Group(head, *(Padding(detail, (0, 0, 0, 4), expand=False) for detail in details))


def _tiles(line: Line, lang: str) -> Styled:
    """Error by tile as characters: ``.`` within tolerance, digits = orders of magnitude beyond it, ``#`` not finite."""
    assert line.tiles is not None
    picture = Styled(say("每块的误差", "error by tile").pick(lang), style="bright_black")
    for row in (line.tiles.get("errors") or [])[:16]:
        picture.append("\n  ")
        for error in row[:64]:
            sign = tile_sign(error, line.tolerance)
            picture.append(sign + " ", style="red" if sign not in ". " else "green")
    return picture


def tile_sign(error: Any, tolerance: float | None) -> str:
    if error is None:
        return " "
    try:
        ratio = float(error) / (tolerance or 1e-5)
    except (TypeError, ValueError):
        return "#"
    if ratio != ratio or ratio == float("inf"):
        return "#"
    sign, limit = 0, 1.0
    while ratio > limit and sign < 9:
        sign, limit = sign + 1, limit * 10
    return "." if sign == 0 else str(sign)


def _heat(score: float, most: float) -> str:
    return "green" if score >= most else "red" if score <= 0 else "yellow"
