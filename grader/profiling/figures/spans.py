"""Time lines: what ran when, in lanes. For the kernels of a device, and for the stages of one core's pipes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from grader.profiling.figures.frame import COLOURS, GREY, figure
from grader.text import say

KINDS = len(COLOURS)  # that have a colour of their own: those which take most time


@dataclass(frozen=True)
class Span:
    """``lane``: the row; ``kind``: what gives the colour; ``note``: what the pointer shows."""

    lane: str
    kind: str
    start: float
    length: float
    note: str = ""


def spans(rows: Sequence[Span], unit: str, lang: str, lanes: Sequence[str] = ()) -> go.Figure:
    """``lanes``: the rows from top to bottom, by default in the order in which they begin."""
    order = list(lanes) or list(dict.fromkeys(row.lane for row in rows))
    time: Counter[str] = Counter()
    for row in rows:
        time[row.kind] += row.length  # type: ignore[assignment]
    kinds = [kind for kind, _ in time.most_common(KINDS)]
    kinds.sort(key=[row.kind for row in rows].index)
    picture = figure(70 + 34 * len(order), barmode="overlay", bargap=0.25)
    for colour, kind in zip([*COLOURS, GREY], [*kinds, None], strict=False):
        chosen = [row for row in rows if (row.kind == kind if kind is not None else row.kind not in kinds)]
        if chosen:
            picture.add_bar(
                name=kind if kind is not None else say("其他", "other").pick(lang),
                orientation="h",
                y=[row.lane for row in chosen],
                base=[row.start for row in chosen],
                x=[row.length for row in chosen],
                text=[row.note for row in chosen],
                textposition="none",
                hovertemplate="%{text}<extra></extra>",
                marker={"color": colour, "line": {"width": 0}},
            )
    picture.update_xaxes(title={"text": unit}, fixedrange=False)
    picture.update_yaxes(categoryorder="array", categoryarray=order, autorange="reversed")
    picture.update_layout(dragmode="zoom")
    return picture
