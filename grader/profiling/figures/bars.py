"""Ratios as horizontal bars: how busy each pipe is, how full each buffer is; and beside it before."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from grader.profiling.figures.frame import BLUE, GREY, ORANGE, figure
from grader.text import Text, say

LIMIT = 1.0  # of a ratio; above it a bar is drawn in another colour


def bars(
    rows: Sequence[tuple[Text, float]], lang: str, before: Sequence[float | None] = (), labels: Sequence[str] = ()
) -> go.Figure:
    """``rows``: name and ratio (1 = all of it), top first. ``labels``: what stands at the end of each bar."""
    names = [name.pick(lang) for name, _ in rows]
    values = [value for _, value in rows]
    most = max([LIMIT, *values, *(value for value in before if value is not None)])
    picture = figure(40 + (44 if before else 32) * len(rows))
    if before:
        old = [None if value is None else 100 * value for value in before]
        text = ["–" if value is None else f"{value:.0f} %" for value in old]
        picture.add_bar(name=say("之前", "before").pick(lang), y=names, x=old, text=text, marker_color=GREY)
    picture.add_bar(
        name=say("之后", "after").pick(lang) if before else "",
        y=names,
        x=[100 * value for value in values],
        text=list(labels) or [f"{100 * value:.0f} %" for value in values],
        marker_color=[ORANGE if value > LIMIT else BLUE for value in values],
    )
    picture.update_traces(orientation="h", textposition="outside", hoverinfo="skip", cliponaxis=False)
    room = 145 if labels else 118  # per cent: for what stands at the end of a full bar
    picture.update_xaxes(
        range=[0, room * most], tickvals=[0, 25, 50, 75, 100], ticktext=[f"{tick} %" for tick in (0, 25, 50, 75, 100)]
    )
    picture.update_yaxes(autorange="reversed")
    picture.update_layout(barmode="group")
    return picture
