"""Advice on a profile: what was found, in which columns, compared with what, and what to try.

No advice rests on how little of the HBM's bandwidth is used: using little is no fault, and fusion uses less still.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.profiling import thresholds
from grader.profiling.facts import BACKWARD, FORWARD, attention_pass, span_us
from grader.profiling.thresholds import Threshold
from grader.text import Text, say
from kernels.profiles import Kernel, Profile

TEXTS = Path(__file__).with_name("advice.toml")
PIPES = (
    ("aic", "mac", thresholds.CUBE),
    ("aiv", "vec", thresholds.VECTOR),
    ("aic", "mte2", thresholds.MTE2),
    ("aic", "fixpipe", thresholds.FIXPIPE),
)
BOUNDS = (  # ids that say what limits a kernel
    *(threshold.column for _, _, threshold in PIPES),
    "waiting",
    "short",
    "launch",
)


@dataclass(frozen=True)
class Advice:
    """``evidence``: column and value. ``compared``: the thresholds behind it."""

    id: str
    title: Text
    text: Text
    evidence: tuple[tuple[str, str], ...] = ()
    compared: tuple[Threshold, ...] = ()


def advise(profile: Profile) -> list[Advice]:
    """What to do first comes first: the recording, the host, then the longest attention kernel of each kind."""
    found = [*_recording(profile), *_idle(profile)]
    for kind in (FORWARD, BACKWARD):
        kernels = [kernel for kernel in profile.kernels if attention_pass(kernel) == kind]
        if kernels:
            found += _kernel(max(kernels, key=lambda kernel: kernel.duration_us))
    return list({(each.id, each.title): each for each in reversed(found)}.values())[::-1]  # each thing once


def busiest(kernel: Kernel) -> tuple[float, Threshold] | None:
    """Ratio and threshold of the pipe that bounds a kernel: the fullest, as everywhere in the course. None where too
    few ratios are known to say so: all of them, or one beyond its threshold.
    """
    told = _ratios(kernel)
    ratios = [(ratio, threshold) for threshold, ratio in told if ratio is not None]
    found = max(ratios, key=lambda each: each[0], default=None)
    if found is None or (found[0] < found[1].value and len(ratios) < len(told)):
        return None
    return found


def _ratios(kernel: Kernel) -> list[tuple[Threshold, float | None]]:
    of = {"aic": kernel.ratios, "aiv": kernel.aiv_ratios}
    return [(threshold, of[core].get(pipe)) for core, pipe, threshold in PIPES]


def _recording(profile: Profile) -> list[Advice]:
    ratios = (r for kernel in profile.kernels for r in (*kernel.ratios.values(), *kernel.aiv_ratios.values()))
    return [] if any(ratio is not None for ratio in ratios) else [_say("no-ratios")]


def _idle(profile: Profile) -> list[Advice]:
    spans = span_us(profile.kernels)
    if spans is None or spans[0] <= 0 or 1 - spans[1] / spans[0] < thresholds.IDLE.value:
        return []
    whole, busy = spans
    evidence = {"span (us)": f"{whole:.1f}", "computing (us)": f"{busy:.1f}"}
    return [_say("idle", evidence, (thresholds.IDLE,), percent=100 * (1 - busy / whole))]


def _kernel(kernel: Kernel) -> list[Advice]:
    column, core_us = max(
        (("aicore_time(us)", kernel.aicore_us or 0.0), ("aiv_time(us)", kernel.aiv_us or 0.0)), key=lambda each: each[1]
    )
    evidence = {"Duration(us)": f"{kernel.duration_us:.1f}", **({column: f"{core_us:.1f}"} if core_us else {})}
    if kernel.duration_us < thresholds.SHORT.value:
        return [_say("short", evidence, (thresholds.SHORT,), type=kernel.type, us=kernel.duration_us)]
    if 0 < core_us < thresholds.LAUNCH.value * kernel.duration_us:
        percent = 100 * core_us / kernel.duration_us
        values = {"type": kernel.type, "us": kernel.duration_us, "core_us": core_us, "percent": percent}
        return [_say("launch", evidence, (thresholds.LAUNCH,), **values)]
    return [*_bound(kernel), *_cores(kernel), *_occupied(kernel), *_aligned(kernel)]


def _bound(kernel: Kernel) -> list[Advice]:
    found = busiest(kernel)
    if found is None:
        return []
    ratio, threshold = found
    evidence = {each.column: f"{value:.3f}" for each, value in _ratios(kernel) if value is not None}
    compared = tuple(each for _, _, each in PIPES)
    mac = kernel.ratios.get("mac") or 0.0
    name = threshold.column if ratio >= threshold.value else "waiting"
    if name not in ("waiting", thresholds.CUBE.column) and mac >= thresholds.CUBE.value:
        name = "balanced"
    values = {
        "type": kernel.type,
        "column": threshold.column,
        "ratio": ratio,
        "limit": threshold.value,
        "rest": 100 * (1 / (mac if name == "balanced" else ratio) - 1) if ratio else 0.0,
        "mac": mac,
    }
    return [_say(name, evidence, compared, **values)]


def _cores(kernel: Kernel) -> list[Advice]:
    cores = kernel.device.cores if kernel.device else None
    if not cores or not kernel.block_num or kernel.block_num >= cores:
        return []
    return [_say("cores", {"Block Num": str(kernel.block_num)}, cores=cores, used=kernel.block_num)]


def _occupied(kernel: Kernel) -> list[Advice]:
    mac, occupied = kernel.ratios.get("mac"), kernel.cube_utilization
    if mac is None or occupied is None or occupied < thresholds.OCCUPIED.value or mac >= thresholds.ENOUGH.value:
        return []
    evidence = {"cube_utilization(%)": f"{occupied:.1f}", "aic_mac_ratio": f"{mac:.3f}"}
    return [_say("occupied", evidence, (thresholds.OCCUPIED, thresholds.ENOUGH), occupied=occupied, mac=mac)]


def _aligned(kernel: Kernel) -> list[Advice]:
    """Sequence and head dim of q, which has four axes in BNSD and BSND; a head dim of 64 or 192 is meant to be."""
    shape = kernel.input_shapes[0] if kernel.input_shapes else None
    unit = int(thresholds.ALIGNED.value)
    sizes = (max(shape[1:3]), shape[3] if shape[3] % 64 else unit) if shape and len(shape) == 4 else ()
    odd = [size for size in sizes if size % unit]
    if not odd or not shape:
        return []
    evidence = {"Input Shapes": ",".join(map(str, shape))}
    return [_say("aligned", evidence, (thresholds.ALIGNED,), unit=unit, odd=", ".join(map(str, odd)))]


def _say(
    name: str, evidence: dict[str, str] | None = None, compared: tuple[Threshold, ...] = (), **values: Any
) -> Advice:
    words = _texts()[name]
    title, text = (say(words[part]["zh"].strip(), words[part]["en"].strip(), **values) for part in ("title", "text"))
    return Advice(name, title, text, tuple((evidence or {}).items()), compared)


@functools.cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(TEXTS.read_text("utf-8"))
