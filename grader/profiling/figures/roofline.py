"""The roofline: what the memory and the Cube allow at an arithmetic intensity, and where the kernels are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import plotly.graph_objects as go

from grader.profiling.figures.frame import BLUE, GREEN, GREY, ORANGE, figure
from grader.text import say

EDGE = 4.0  # how far the picture reaches beyond what it shows, as a factor


@dataclass(frozen=True)
class Point:
    """A kernel: floating-point operations per byte that it must move, and teraflops that it reached."""

    name: str
    intensity: float
    tflops: float
    before: bool = False


def roofline(points: Sequence[Point], peak: float, bandwidths: dict[str, float], lang: str) -> go.Figure:
    """``peak`` in TFLOPS, ``bandwidths`` by memory in TB/s."""
    ridges = [peak / bandwidth for bandwidth in bandwidths.values()]
    low = min([*ridges, *(point.intensity for point in points)]) / EDGE
    high = max([*ridges, *(point.intensity for point in points)]) * EDGE
    least = min([bandwidth * low for bandwidth in bandwidths.values()] + [point.tflops / EDGE for point in points])
    picture = figure(380)
    for (name, bandwidth), colour in zip(bandwidths.items(), (GREY, ORANGE), strict=False):
        ridge = peak / bandwidth
        picture.add_scatter(
            name=say("{name} {it:.1f} TB/s", "{name} {it:.1f} TB/s", name=name, it=bandwidth).pick(lang),
            x=[low, ridge, high],
            y=[bandwidth * low, peak, peak],
            mode="lines",
            line={"color": colour, "width": 2},
            hoverinfo="skip",
        )
    for label, old, colour, symbol in (
        (say("之前", "before"), True, GREY, "circle-open"),
        (say("算子", "kernels") if not any(p.before for p in points) else say("之后", "after"), False, BLUE, "circle"),
    ):
        chosen = [point for point in points if point.before == old]
        if chosen:
            picture.add_scatter(
                name=label.pick(lang),
                x=[point.intensity for point in chosen],
                y=[point.tflops for point in chosen],
                mode="markers",
                marker={"color": colour, "size": 11, "symbol": symbol, "line": {"width": 2, "color": colour}},
                text=[point.name for point in chosen],
                hovertemplate="%{text}<br>%{x:.3g} FLOP/B, %{y:.4g} TFLOPS<extra></extra>",
            )
    picture.add_scatter(
        name=say("Cube 峰值 {it:.0f} TFLOPS", "Cube peak {it:.0f} TFLOPS", it=peak).pick(lang),
        x=[low, high],
        y=[peak, peak],
        mode="lines",
        line={"color": GREEN, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    bottom, top = least, peak * 2
    picture.update_xaxes(type="log", title={"text": "FLOP / B"}, **_ticks(low, high))
    picture.update_yaxes(type="log", title={"text": "TFLOPS"}, range=[log10(bottom), log10(top)], **_ticks(bottom, top))
    return picture


def _ticks(low: float, high: float) -> dict[str, list[float] | list[str]]:
    """Powers of ten, or 1, 2, 5 times them where there are few; written out, which plotly does for powers only."""
    steps = (1,) if log10(high / low) > 2.5 else (1, 2, 5)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    values = [step * 10.0**power for power in powers for step in steps]
    return {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
