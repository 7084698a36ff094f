"""The page: who is worth a look, and the two programs side by side with the common passages marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import FileSystemLoader
from markupsafe import Markup

from grader import results
from grader.integrity import compare
from grader.integrity.survey import Pair, Paper, Survey, contract
from grader.reports import pages
from grader.text import Text, language, say

ASSETS = Path(__file__).with_name("assets")
MOST = 100  # pairs that are shown in full
AROUND = 2  # lines that are shown before and after a passage


@dataclass(frozen=True)
class Row:
    number: int | None  # None: lines that are left out
    text: str = ""
    marked: bool = False


def page(found: Survey, *, lang: str | None = None) -> str:
    """Self-contained HTML in both languages; opens in ``lang``."""
    lang = lang or language()
    style = (pages.ASSETS / "style.css").read_text("utf-8") + (ASSETS / "similarity.css").read_text("utf-8")
    template = (
        pages.environment().overlay(loader=FileSystemLoader([ASSETS, pages.ASSETS])).get_template("similarity.html")
    )
    return template.render(
        lang=lang,
        version=results.version(),
        style=Markup(style),
        wide=True,
        title=say("相似之处 · FlashDojo", "Similarity · FlashDojo"),
        found=found,
        most=MOST,
        limits=compare,
        percent=percent,
        names=names,
        source=source,
    )


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def names(pair: Pair) -> list[str]:
    """The exercises that are alike by themselves, by their ids."""
    return [contract()[name].id for name in pair.exercises]


def source(pair: Pair, first: bool) -> list[tuple[Text, list[Row]]]:
    """One side of a pair, cell by cell: the lines with common passages and some around them."""
    paper, share = (pair.one, pair.of_one) if first else (pair.other, pair.of_other)
    marked = {(token.cell, token.line) for token, same in zip(paper.tokens, share.tokens) if same}
    return [piece for piece in _cells(paper, marked) if piece[1]]


def _cells(paper: Paper, marked: set[tuple[int | None, int]]) -> list[tuple[Text, list[Row]]]:
    found = []
    for cell in paper.program.cells:
        lines = {line for number, line in marked if number == cell.number}
        title = say("第 {n} 个单元", "cell {n}", n=cell.number) if cell.number is not None else Text("", "")
        found.append((title, _rows(cell.source.split("\n"), lines)))
    return found


def _rows(text: Sequence[str], marked: set[int]) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(text, 1):
        if any(near in marked for near in range(number - AROUND, number + AROUND + 1)):
            if rows and rows[-1].number is not None and rows[-1].number != number - 1:
                rows.append(Row(None))
            rows.append(Row(number, line, number in marked))
    return rows
