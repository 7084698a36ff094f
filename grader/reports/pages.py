"""Jinja environment of the pages: both languages side by side in one file, nothing loaded from elsewhere."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from grader import results
from grader.text import LANGUAGES, Text, language, say
from grader.views.content import MARKS, STATUS, number
from grader.views.facts import as_number
from grader.views.html import tile_picture

SIGNS = {**MARKS, "timeout": MARKS["failed"]}  # few fonts have the hour-glass
ASSETS = Path(__file__).with_name("assets")


def both(text: Text) -> Markup:
    """The sentence in both languages; the switch of the page shows one."""
    if text.zh == text.en:
        return escape(text.en)
    return Markup('<span lang="zh">{}</span><span lang="en">{}</span>').format(text.zh, text.en)


def spoken(zh: str, en: str, **values: Any) -> Markup:
    """``say`` for templates."""
    return both(say(zh, en, **values))


def picture(line: Any) -> Markup:
    """The error by tile, in each language."""
    drawn = {lang: tile_picture(line.tiles, line.tolerance, lang) for lang in LANGUAGES}
    return Markup("").join(
        Markup('<div lang="{}">{}</div>').format(lang, Markup(svg)) for lang, svg in drawn.items() if svg
    )


def tile_caption(line: Any) -> Text:
    """What the picture shows, for those who cannot see it, and its colours."""
    cells = [error for row in line.tiles.get("errors") or [] for error in row if error is not None]
    limit = line.tolerance or 0.0
    bad = sum(not (value is not None and value <= limit) for value in map(as_number, cells))
    return say(
        "{n} 块中有 {bad} 块超出容差：绿色在容差内，黄到红越来越大，紫色不是有限数。",
        "{bad} of {n} tiles are beyond the tolerance: green is within it, amber to red ever larger, purple not finite.",
        n=len(cells),
        bad=bad,
    )


@functools.cache
def environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(both=both, points=number)
    env.globals.update(
        t=spoken,
        picture=picture,
        tile_caption=tile_caption,
        MARKS=SIGNS,
        STATUS=STATUS,
        style=Markup((ASSETS / "style.css").read_text("utf-8")),
        script=Markup((ASSETS / "page.js").read_text("utf-8")),
    )
    return env


def render(template: str, *, lang: str | None = None, **values: Any) -> str:
    """One self-contained page that opens in ``lang``."""
    return environment().get_template(template).render(lang=lang or language(), version=results.version(), **values)
