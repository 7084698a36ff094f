"""What every picture shares. Ink, paper and grid are the page's own and are put in where it is shown (figures.js)."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

# Okabe and Ito's colours, which colour-blind readers tell apart, in shades that show on light and dark paper.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY = (
    "#2f7fc1",
    "#d98a1b",
    "#2f9e77",
    "#a866b5",
    "#5fb4e5",
    "#cf5b3b",
    "#c9a91f",
    "#8a929c",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW)


def figure(height: int, **layout: Any) -> go.Figure:
    """An empty figure of the page's width and ``height`` pixels."""
    picture = go.Figure()
    picture.update_layout(
        template="none",
        height=height,
        autosize=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 16, "t": 8, "b": 8},
        showlegend=False,  # the page writes its own, which wraps
        hoverlabel={"align": "left"},
        bargap=0.35,
    )
    picture.update_xaxes(automargin=True, zeroline=False, fixedrange=True)
    picture.update_yaxes(automargin=True, zeroline=False, fixedrange=True)
    picture.update_layout(**layout)
    return picture
