"""What the page of a profile says in words and numbers; its pictures are in drawings.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.profiling.advice import BOUNDS, Advice, advise
from grader.profiling.facts import FORWARD, TypeRow, attention_pass, by_type, flops, peak_tflops, span_us
from grader.profiling.words import UNITS, meaning
from grader.text import Text, say
from kernels.perf import Prediction
from kernels.profiles import Profile, Share, utilisation

TYPES = 20  # rows of the table of kernels
TOOLS = {"pytorch": "torch_npu.profiler", "msprof": "msprof"}


@dataclass(frozen=True)
class UnitRow:
    name: Text
    percent: str
    meaning: Text


@dataclass(frozen=True)
class Change:
    type: str
    before: str
    after: str
    speed: str


@dataclass(frozen=True)
class Contents:
    name: Text
    path: Path
    kicker: Text
    verdict: Text
    remarks: list[Text]
    figures: list[tuple[Text, str, Text]]
    advice: list[Advice]
    units: list[UnitRow]
    types: list[TypeRow]
    more_types: int
    changes: list[Change]


def contents(profile: Profile, before: Profile | None, model: Prediction | None) -> Contents:
    rows = by_type(profile.kernels)
    advice = advise(profile)
    return Contents(
        name=_name(profile),
        path=profile.path,
        kicker=_kicker(profile, model),
        verdict=_verdict(rows, advice),
        remarks=_remarks(profile),
        figures=_figures(profile, before, rows),
        advice=advice,
        units=[
            UnitRow(UNITS[name], f"{100 * share.value:.1f} %", meaning(name))
            for name, share in told(profile).items()
            if share.value is not None
        ],
        types=rows[:TYPES],
        more_types=max(0, len(rows) - TYPES),
        changes=_changes(by_type(before.kernels), rows) if before else [],
    )


def told(profile: Profile) -> dict[str, Share]:
    """The shares that the profile has anything to say about, in the page's order."""
    found = utilisation(profile)
    return {name: found[name] for name in UNITS if found[name].value is not None}


def _name(profile: Profile) -> Text:
    schedule = (profile.emulated or {}).get("schedule_name")
    chip = profile.device.name if profile.device else None
    if profile.emulated and profile.emulated.get("training_step") and chip:
        return say("{chip} 上的训练步", "training steps on {chip}", chip=chip.removeprefix("Ascend"))
    if isinstance(schedule, str) and chip:
        return say(
            "{chip} 上的 {schedule}", "{schedule} on {chip}", chip=chip.removeprefix("Ascend"), schedule=schedule
        )
    name = profile.path.resolve().name
    return Text(name, name)


def _kicker(profile: Profile, model: Prediction | None) -> Text:
    device = profile.device
    chip = device and (device.name or (f"{device.cores} × {device.mhz:g} MHz" if device.cores and device.mhz else None))
    parts = [chip or "", TOOLS[profile.kind]]
    if model is not None:
        s = model.shape
        sizes = f"B {s.batch}, N {s.num_heads}/{s.num_kv_heads}, S {s.seq_q}×{s.seq_kv}, D {s.head_dim}, {s.dtype}"
        parts.append(sizes + (", causal" if s.causal else ""))
    return Text(*[" · ".join(filter(None, parts))] * 2)


def _verdict(rows: Sequence[TypeRow], advice: Sequence[Advice]) -> Text:
    """The type that takes most time, and what bounds attention."""
    share = say(
        "{type} 占算子时间的 {share:.0f} %。",
        "{type} takes {share:.0f} % of the kernels' time.",
        type=rows[0].type,
        share=100 * rows[0].share,
    )
    bound = next((each.title for each in advice if each.id in BOUNDS), None)
    return share.plus(Text(f"{bound.zh}。", f"{bound.en}.")) if bound else share


def _remarks(profile: Profile) -> list[Text]:
    remarks = []
    if profile.emulated is not None:
        remarks.append(
            say(
                "这是性能模型的预测，不是在 NPU 上的实测。",
                "This was predicted by the performance model, not measured on an NPU.",
            )
        )
    notes = Counter[str]()
    for note in profile.notes:
        notes[note.id] += note.count
    remarks += [
        NOTES[name].plus(Text(f"（{count}）", f"({count})"), " ") for name, count in notes.items() if name in NOTES
    ]
    return remarks


NOTES = {
    "not-a-number": say("有的单元格不是数，按缺失处理", "cells that are no numbers were taken as missing"),
    "out-of-range": say("有的比例大于 1，按缺失处理", "ratios above 1 were taken as missing"),
    "ratio-disagrees": say(
        "有的比例与它的时间对不上：文件可能被改过",
        "ratios that disagree with their times: the file may have been edited",
    ),
    "statistic-disagrees": say(
        "op_statistic 与算子表对不上：文件可能被改过或截断",
        "op_statistic disagrees with the table of kernels: a file may have been edited or cut",
    ),
    "last-line-open": say("最后一行没有换行：文件可能被截断", "the last line has no end: the file may be cut"),
    "step-trace-unreadable": say("step_trace_time.csv 读不出来", "step_trace_time.csv cannot be read"),
    "level-0": say("级别 0：只有名字和时间", "level 0: names and times only"),
    "other-metrics": say(
        "采集的不是 PipeUtilization，没有流水的列", "another set of metrics than PipeUtilization: no columns of pipes"
    ),
}


def _figures(profile: Profile, before: Profile | None, rows: Sequence[TypeRow]) -> list[tuple[Text, str, Text]]:
    us = Text("us", "us")
    found = [(say("算子时间", "kernels"), f"{profile.duration_us:,.1f}", us)]
    if before is not None and profile.duration_us:
        ratio = before.duration_us / profile.duration_us
        found.insert(0, (say("比之前快", "faster than before"), f"{100 * (ratio - 1):+.1f}", Text("%", "%")))
    found.append((say("算子个数", "number of kernels"), f"{len(profile.kernels):,}", Text("", "")))
    spans = span_us(profile.kernels)
    if spans and spans[0] > 0:
        found.append((say("NPU 在计算", "NPU computing"), f"{100 * spans[1] / spans[0]:.0f}", Text("%", "%")))
    attention = [kernel for kernel in profile.kernels if attention_pass(kernel) == FORWARD]
    work = [flops(kernel) for kernel in attention]
    time = sum(kernel.duration_us for kernel in attention)
    if attention and time and all(work):
        tflops = sum(filter(None, work)) / time / 1e6
        found.append((say("FlashAttention 前向", "FlashAttention forward"), f"{tflops:.1f}", Text("TFLOPS", "TFLOPS")))
        peak = peak_tflops(profile.device)
        if peak:
            found.append((say("MFU", "MFU"), f"{100 * tflops / peak:.1f}", Text("%", "%")))
    return found


def _changes(before: Sequence[TypeRow], after: Sequence[TypeRow]) -> list[Change]:
    """Types with the largest times first; of a type that only one of the two has, the other side is empty."""
    old, new = _totals(before), _totals(after)
    names = sorted({*old, *new}, key=lambda name: -max(old.get(name, 0.0), new.get(name, 0.0)))
    changes = []
    for name in names[:TYPES]:
        one, other = old.get(name), new.get(name)
        speed = f"{one / other:.2f}×" if one and other else "–"
        changes.append(Change(name, _time(one), _time(other), speed))
    return changes


def _totals(rows: Sequence[TypeRow]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for row in rows:
        totals[row.type] = totals.get(row.type, 0.0) + row.total_us
    return totals


def _time(us: float | None) -> str:
    return "–" if us is None else f"{us:,.1f}"
