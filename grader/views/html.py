"""The answer in a notebook: one self-contained HTML fragment, no script, readable on light and on dark pages.

Without its style sheet (an untrusted notebook is stripped of it) it is still plain, complete HTML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from grader.text import LANGUAGES, Text, language, say
from grader.views.content import MARKS, STATUS, Block, Line, blocks, not_a_grade, number

_STYLE = """
.fd{--ok:#1f9d61;--bad:#e0483e;--wait:#8a8f98;--soft:rgba(127,127,127,.12);--edge:rgba(127,127,127,.35);
 font:14px/1.55 system-ui,-apple-system,"Segoe UI","PingFang SC","Microsoft YaHei","Noto Sans CJK SC",
 "WenQuanYi Micro Hei",sans-serif;color:var(--jp-content-font-color1,inherit);max-width:60em;margin:.3em 0}
.fd *{box-sizing:border-box}
.fd h4{font-size:1.05em;margin:.2em 0 .1em;font-weight:600;display:flex;gap:.6em;align-items:baseline;flex-wrap:wrap}
.fd .pts{margin-left:auto;font-variant-numeric:tabular-nums;white-space:nowrap}
.fd .bar{height:5px;border-radius:3px;background:var(--soft);overflow:hidden;margin:.1em 0 .6em}
.fd .bar i{display:block;height:100%;background:var(--ok)}
.fd code{font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace);font-size:.92em;
 background:var(--soft);border-radius:3px;padding:0 .25em;overflow-wrap:anywhere}
.fd .chips{display:flex;flex-wrap:wrap;gap:.3em;margin:.3em 0}
.fd .chip{border:1px solid var(--edge);border-radius:1em;padding:0 .6em;font-size:.9em;white-space:nowrap}
.fd .passed b{color:var(--ok)} .fd .failed b,.fd .error b,.fd .timeout b{color:var(--bad)}
.fd .blocked b,.fd .not_measured b{color:var(--wait)}
.fd .card{border:1px solid var(--edge);border-left:4px solid var(--bad);border-radius:4px;padding:.45em .8em;
 margin:.5em 0;display:flex;gap:1em;flex-wrap:wrap;align-items:flex-start}
.fd .card>div{flex:1 1 22em;min-width:0}
.fd .card svg{flex:0 0 auto;max-width:100%}
.fd .card p{margin:.15em 0}
.fd .idea{background:var(--soft);border-radius:4px;padding:.3em .6em;margin:.4em 0!important}
.fd dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:0 .8em;margin:.3em 0;font-size:.93em}
.fd dt,.fd dd{float:none;clear:none;width:auto;margin:0;padding:0;font-weight:normal}
.fd dt{opacity:.7;white-space:nowrap} .fd dd{font-variant-numeric:tabular-nums}
.fd summary{cursor:pointer;opacity:.85} .fd details{margin:.25em 0}
.fd details p{margin:.2em 0 .2em 1.1em;white-space:pre-wrap}
.fd .all{font-weight:600;color:var(--ok)} .fd .dim{opacity:.7;font-size:.92em}
.fd text{fill:currentColor;font-size:10px;font-family:inherit}
"""

_OTHER = {"zh": "中文", "en": "English"}


def render(submission: Mapping[str, Any], *, lang: str | None = None, live: bool = True) -> str:
    """The view of one element of a result document's ``submissions``: in ``lang``, the other language folded in."""
    first = lang or language()
    second = next(code for code in LANGUAGES if code != first)
    shown = blocks(submission, live=live)
    return (
        f"<style>{_STYLE}</style>"
        f'<div class="fd" lang="{first}">{_body(submission, shown, first, live)}'
        f'<details><summary class="dim">{_OTHER[second]}</summary>'
        f'<div lang="{second}">{_body(submission, shown, second, live)}</div></details></div>'
    )


def _body(submission: Mapping[str, Any], shown: Sequence[Block], lang: str, live: bool) -> str:
    parts = []
    if submission.get("message"):
        parts.append(f"<p>{_t(Text(**submission['message']), lang)}</p>")
    parts += [f'<p class="dim">{_t(Text(**repair), lang)}</p>' for repair in submission.get("repairs") or ()]
    parts += [_exercise(block, lang) for block in shown]
    if live and shown:
        parts.append(f'<p class="dim">{_t(not_a_grade(shown), lang)}</p>')
    return "".join(parts)


def _exercise(block: Block, lang: str) -> str:
    share = 100 * block.score / block.max_score if block.max_score else 100
    score, most = number(block.score), number(block.max_score)
    points = say(f"{score} / {most} 分", f"{score} / {most} points")
    parts = [
        f"<h4><span>{_t(block.title, lang)}</span> <code>{escape(block.name)}</code>"
        f'<span class="pts">{_t(points, lang)}</span></h4>',
        f'<div class="bar"><i style="width:{share:.1f}%"></i></div>',
        '<div class="chips">' + " ".join(_chip(line, lang) for line in block.lines) + "</div>",
    ]
    parts += [_card(line, lang) for line in block.problems if line.status != "blocked" and not line.repeats]
    if block.waiting:
        parts.append(f'<p class="dim">{_t(block.waiting, lang)}</p>')
    parts += [f'<p class="dim">{_t(line.remark, lang)}</p>' for line in block.lines if line.remark]
    if block.passed:
        parts.append(f'<p class="all">✓ {_t(say("全部通过", "All checks passed"), lang)}</p>')
    else:
        parts.append(_hints(block, lang))
    return "".join(parts)


def _chip(line: Line, lang: str) -> str:
    state = f"{STATUS[line.status].pick(lang)} · {number(line.earned)}/{number(line.points)}"
    name = f" <code>{escape(line.name)}</code>" if line.shares_title else ""
    return (
        f'<span class="chip {line.status}" title="{escape(line.id)}: {escape(state)}">'
        f"<b>{MARKS[line.status]}</b> {_t(line.title, lang)}{name}</span>"
    )


def _card(line: Line, lang: str) -> str:
    where = f'<span class="dim">{_t(_bracketed(line.where), lang)}</span>' if line.where else ""
    parts = [
        f'<p class="{line.status}"><b>{line.mark} {_t(line.title, lang)}</b> <code>{escape(line.id)}</code>{where}</p>',
        f"<p>{_t(line.message, lang)}</p>",
    ]
    if line.idea:
        title, explain = line.idea
        parts.append(f'<p class="idea"><b>{_t(title, lang)}</b><br>{_t(explain, lang)}</p>')
    if line.facts:
        rows = (f"<dt>{_t(label, lang)}</dt><dd><code>{escape(value)}</code></dd>" for label, value in line.facts)
        parts.append("<dl>" + "".join(rows) + "</dl>")
    picture = tile_picture(line.tiles, line.tolerance, lang) if line.tiles else ""
    return f'<div class="card"><div>{"".join(parts)}</div>{picture}</div>'


def _hints(block: Block, lang: str) -> str:
    """Three levels, each inside the one before: the next is only in sight once the last was read."""
    inner = ""
    for level in range(len(block.hints), 0, -1):
        title = say("提示 {n}", "Hint {n}", n=level)
        inner = (
            f"<details><summary>{_t(title, lang)}</summary><p>{_t(block.hints[level - 1], lang)}</p>{inner}</details>"
        )
    return inner


def tile_picture(tiles: Mapping[str, Any], tolerance: float | None, lang: str) -> str:
    """An SVG of the error in each tile: grey within tolerance, from amber to red by orders of magnitude beyond it."""
    errors = tiles.get("errors") or []
    rows, columns = len(errors), max((len(row) for row in errors), default=0)
    if not rows or not columns or rows * columns > 4096:
        return ""
    cell = max(4, min(26, 220 // max(rows, columns)))
    width, height = columns * cell, rows * cell
    squares = []
    for i, row in enumerate(errors):
        for j, error in enumerate(row):
            value = "" if error is None else (f"{error:.3g}" if isinstance(error, float | int) else str(error))
            squares.append(
                f'<rect x="{18 + j * cell}" y="{16 + i * cell}" width="{cell - 1}" height="{cell - 1}" '
                f'fill="{_colour(error, tolerance)}"><title>({i}, {j}): {escape(value)}</title></rect>'
            )
    heading = say("每块的误差", "error by tile")
    across, down = say("批次与头", "batch and head"), say("行块", "tile of rows")
    sizes = _bracketed(say("每块 {n} 行", "{n} rows each", n=tiles.get("block_q", "?")))
    return (
        f'<svg role="img" width="{max(width + 22, 190)}" height="{height + 34}" '
        f'aria-label="{_t(heading, lang)}"><text x="18" y="11">{_t(heading, lang)}{_t(sizes, lang)}</text>'
        f'{"".join(squares)}<text x="18" y="{height + 29}">→ {_t(across, lang)}</text>'
        f'<text x="11" y="16" transform="rotate(90 8 16)">→ {_t(down, lang)}</text></svg>'
    )


def _colour(error: Any, tolerance: float | None) -> str:
    if error is None:
        return "rgba(127,127,127,.10)"
    try:
        value = float(error)
    except (TypeError, ValueError):
        value = math.inf
    if not math.isfinite(value):
        return "#8e44ad"
    limit = tolerance or 1e-5
    if value <= limit:
        return "rgba(31,157,97,.40)"
    reach = min(1.0, math.log10(value / limit) / 5)
    return f"hsl({45 - 45 * reach:.0f} 85% {58 - 10 * reach:.0f}%)"


def _bracketed(text: Text) -> Text:
    return Text(f"（{text.zh}）", f" ({text.en})")


def _t(text: Text, lang: str) -> str:
    return escape(text.pick(lang))
