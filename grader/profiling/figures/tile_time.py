"""Time against tile size: a map of block_q by block_kv, what does not fit left empty."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from grader.profiling.figures.frame import figure
from grader.text import say


def tile_time(times: Mapping[tuple[int, int], float | None], lang: str) -> go.Figure:
    """``times``: (block_q, block_kv) -> microseconds of the best schedule with these tiles, None if none is legal."""
    rows = sorted({tile[0] for tile in times})
    columns = sorted({tile[1] for tile in times})
    table = [[times.get((row, column)) for column in columns] for row in rows]
    picture = figure(150 + 36 * len(rows))
    picture.add_heatmap(
        x=[str(column) for column in columns],
        y=[str(row) for row in rows],
        z=table,
        text=[["" if value is None else f"{value:.0f}" for value in row] for row in table],
        texttemplate="%{text}",
        colorscale="Viridis",
        reversescale=True,
        hoverongaps=False,
        xgap=2,
        ygap=2,
        colorbar={"title": {"text": "us"}, "thickness": 12},
        hovertemplate="block_q %{y}, block_kv %{x}: %{z:.1f} us<extra></extra>",
    )
    picture.update_xaxes(title={"text": "block_kv"}, type="category")
    picture.update_yaxes(title={"text": say("block_q", "block_q").pick(lang)}, type="category", autorange="reversed")
    return picture
