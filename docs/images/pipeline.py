"""Draws what one core does in its first tiles, without and with a preload: docs/images/pipeline.svg.

.venv/bin/python docs/images/pipeline.py
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from kernels.perf import PIPES, Schedule, Shape, find_soc, timeline

OUT = Path(__file__).with_name("pipeline.svg")
TILES = 5
COLOURS = {"load": "#9aa7b5", "C1": "#2f6db5", "V1": "#c7582e", "C2": "#3f9460", "V2": "#8a5fb0"}
OF_STAGE = {"S out": "C1", "P out": "V1", "O out": "C2", "normalise": "V2", "store O": "V2"}


def main() -> None:
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "flashdojo", "font.size": 9})
    figure, panels = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True, layout="constrained")
    for panel, preload in zip(panels, (0, 2)):
        draw(panel, preload)
    panels[1].set_xlabel("cycles of one core, Ascend 950PR, block_q = block_kv = D = 128")
    panels[1].legend(
        handles=[Patch(color=colour, label=name) for name, colour in COLOURS.items()],
        ncols=len(COLOURS), loc="upper right", frameon=False,
    )  # fmt: skip
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    OUT.write_text("".join(line.rstrip() + "\n" for line in text.getvalue().splitlines()), encoding="utf-8")


def draw(panel: Axes, preload: int) -> None:
    pipes = [pipe for pipe in PIPES if pipe != "VMTE2"]  # on a 950 nothing comes into UB from global memory
    events = timeline(find_soc("950PR"), Shape(1, 16, 16, 4096, 4096), Schedule(preload=preload), TILES)
    for event in events:
        stage = OF_STAGE.get(event.stage, event.stage.split()[0])
        row, length = len(pipes) - 1 - pipes.index(event.pipe), event.end - event.start
        panel.broken_barh([(event.start, length)], (row - 0.4, 0.8), color=COLOURS[stage], edgecolor="white", lw=0.4)
        if event.pipe in ("CUBE", "VECTOR") and stage != "V2":
            place = (event.start + length / 2, row)
            panel.text(*place, f"{stage} {event.tile}", color="white", ha="center", va="center", fontsize=7)
    panel.set_yticks(range(len(pipes)), reversed(pipes))
    panel.set_title(f"preload = {preload}", loc="left", fontsize=9)
    panel.spines[["top", "right"]].set_visible(False)
    panel.margins(x=0.01)


if __name__ == "__main__":
    main()
