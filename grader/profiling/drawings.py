"""The pictures of a profile's page: which numbers go into which, and what is said below each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape  # a picture takes some tags in its words for tags

import plotly.graph_objects as go

from grader.checking.model_errors import part_name
from grader.profiling.contents import told
from grader.profiling.facts import flops, peak_tflops
from grader.profiling.figures.bars import bars
from grader.profiling.figures.roofline import Point, roofline
from grader.profiling.figures.spans import Span, spans
from grader.profiling.words import SHORT_PIPES, SHORT_UNITS, stage_name
from grader.text import Text, say
from kernels.perf import Prediction, timeline
from kernels.profiles import Kernel, Profile, tensor_bytes

MOST_SPANS = 1500  # kernels of the timeline
MOST_POINTS = 200  # of the roofline
TILES = 6  # of one core's picture


@dataclass(frozen=True)
class Drawing:
    """A picture in each language, and what it shows in words."""

    zh: go.Figure
    en: go.Figure
    caption: Text


def drawings(profile: Profile, before: Profile | None, model: Prediction | None) -> dict[str, Drawing]:
    """By name; what a profile cannot tell is left out."""
    found = {
        "units": _units(profile, before),
        "buffers": _buffers(model),
        "timeline": _timeline(profile),
        "core": _core(model),
        "roofline": _roofline(profile, before),
    }
    return {name: drawing for name, drawing in found.items() if drawing is not None}


def _units(profile: Profile, before: Profile | None) -> Drawing | None:
    now = {name: share for name, share in told(profile).items() if name in SHORT_UNITS}
    if not now:
        return None
    old = told(before) if before else {}
    rows = [(SHORT_UNITS[name], share.value or 0.0) for name, share in now.items()]
    beside = [old[name].value if name in old else None for name in now] if before else []
    caption = say(
        "整个芯片在算子运行期间的平均。100 % 表示这一部分一直在工作；只用一半核的算子按一半计。HBM 是下限。",
        "The whole chip while kernels run, on average. 100 %: always at work; a kernel on half of the cores counts "
        "half. HBM is a lower bound.",
    )
    return Drawing(bars(rows, "zh", beside), bars(rows, "en", beside), caption)


def _buffers(model: Prediction | None) -> Drawing | None:
    if model is None:
        return None
    rows = [(Text(level, level), buffer.used / buffer.capacity) for level, buffer in model.buffers.items()]
    labels = [f"{buffer.used / 1024:.4g} / {buffer.capacity / 1024:.4g} KiB" for buffer in model.buffers.values()]
    parts = {
        lang: "; ".join(
            f"{level}: "
            + ", ".join(f"{part_name(name).pick(lang)} {size / 1024:.4g}" for name, size in b.parts.items() if size)
            for level, b in model.buffers.items()
        )
        for lang in ("zh", "en")
    }
    caption = say(
        "每个核的片上缓冲区，按调度算出（KiB）。{parts}。",
        "Buffers on chip of one core, from the schedule (KiB). {parts}.",
        parts=Text(parts["zh"].replace("; ", "；").replace(", ", "、").replace(": ", "："), parts["en"]),
    )
    return Drawing(bars(rows, "zh", labels=labels), bars(rows, "en", labels=labels), caption)


def _timeline(profile: Profile) -> Drawing | None:
    timed = sorted((k for k in profile.kernels if k.start_ns is not None), key=lambda k: k.start_ns or 0)
    if not timed:
        return None
    shown = timed[:MOST_SPANS]
    rows = []
    for kernel in shown:
        start = ((kernel.start_ns or 0) - (timed[0].start_ns or 0)) / 1000
        note = f"{escape(kernel.name)}<br>{start:.1f} + {kernel.duration_us:.2f} us"
        rows.append(Span(escape(kernel.core or "?"), kernel.type, start, kernel.duration_us, note))
    caption = say(
        "每一条是一个算子，按所用的核分行，按类型着色；拖动可放大，双击还原。",
        "Each bar is a kernel; rows by the core it uses, colours by type. Drag to enlarge, double-click to go back.",
    )
    if len(shown) < len(timed):
        caption = caption.plus(
            say("只画了前 {n} 个（共 {all} 个）。", "The first {n} of {all} are drawn.", n=len(shown), all=len(timed))
        )
    return Drawing(spans(rows, "us", "zh"), spans(rows, "us", "en"), caption)


def _core(model: Prediction | None) -> Drawing | None:
    if model is None:
        return None
    events = timeline(model.soc, model.shape, model.schedule, tiles=TILES)
    used = {event.pipe for event in events}
    lanes = [name for pipe, name in SHORT_PIPES.items() if pipe in used]
    pictures = {}
    for lang in ("zh", "en"):
        rows = [
            Span(
                lane=SHORT_PIPES[event.pipe],
                kind=stage_name(event.stage).pick(lang),
                start=event.start,
                length=event.end - event.start,
                note=f"{stage_name(event.stage).pick(lang)} {event.tile}<br>{event.start:.0f} – {event.end:.0f}",
            )
            for event in events
        ]
        pictures[lang] = spans(rows, say("周期", "cycles").pick(lang), lang, lanes)
    caption = say(
        "模型里一个核的前 {n} 块：每条流水一行，空白就是在等。",
        "The first {n} tiles of one core in the model: a row for each pipe; where it is empty the pipe waits.",
        n=TILES,
    )
    return Drawing(pictures["zh"], pictures["en"], caption)


def _roofline(profile: Profile, before: Profile | None) -> Drawing | None:
    peak, device = peak_tflops(profile.device), profile.device
    points = [*_points(before.kernels, True), *_points(profile.kernels, False)] if before else _points(profile.kernels)
    if peak is None or device is None or not device.hbm_bytes_per_second or not points:
        return None
    bandwidths = {"HBM": device.hbm_bytes_per_second / 1e12}
    caption = say(
        "横轴：每搬 1 字节（输入、输出各搬一次）做多少次浮点运算；纵轴：达到的速度。斜线左边受带宽限制，"
        "平线下方受 16 位 Cube 峰值限制。真实流量只多不少，所以真实的点在左边。",
        "Across: operations for each byte that must move (inputs and outputs once). Up: the speed reached. Left of the "
        "ridge bandwidth is the limit, right of it the Cube's 16-bit peak. The true traffic is larger, the true point "
        "further left.",
    )
    return Drawing(roofline(points, peak, bandwidths, "zh"), roofline(points, peak, bandwidths, "en"), caption)


def _points(kernels: Sequence[Kernel], before: bool = False) -> list[Point]:
    """A point for each kind of call: the type with its shapes; the mean time of those that are alike."""
    groups: dict[tuple[str, object], list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.type, kernel.input_shapes), []).append(kernel)
    points = []
    for members in groups.values():
        work, moved = flops(members[0]), tensor_bytes(members[0])
        mean = sum(kernel.duration_us for kernel in members) / len(members)
        if work and moved and mean:
            sizes = ";".join(",".join(map(str, s)) for s in (members[0].input_shapes or ())[:2] if s)
            points.append(Point(f"{escape(members[0].type)} {sizes}", work / moved, work / mean / 1e6, before))
    return sorted(points, key=lambda point: -point.tflops)[:MOST_POINTS]
