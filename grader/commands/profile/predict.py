"""``profile predict``: one prediction, with its error band, in the terminal or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text as Styled

from grader.checking.model_errors import part_name
from grader.commands.base import print_json, tell
from grader.exit_codes import PASSED
from grader.profiling import asking
from grader.profiling.errors import refuse
from grader.profiling.words import MEMORIES, PIPES, caveat
from grader.text import say
from grader.views.terminal import console
from kernels.perf import Buffer, Prediction, Refused
from kernels.perf import predict as model

FULL = 0.8  # share of a core's time from which a pipe is full, as in the exercise s4-diagnose
BAR = 24  # characters of a ratio of 1


def predict(soc_name: str, shape_text: str, dtype: str, mask: str, schedule_name: str | None, as_json: bool) -> int:
    soc = asking.chip(soc_name)
    shape = asking.size(shape_text, dtype, mask)
    schedule_name = schedule_name or asking.usual(soc)
    schedule = asking.order(schedule_name, soc, shape)
    try:
        found = model(soc, shape, schedule)
    except Refused as error:
        raise refuse(error) from error
    if as_json:
        print_json(document(found))
    else:
        _show(found, schedule_name)
    return PASSED


def document(found: Prediction) -> dict[str, Any]:
    """The prediction as plain values; times in microseconds, ratios of 1, buffers in bytes."""
    soc, shape = found.soc, found.shape
    return {
        "soc": {"name": soc.name, "arch": soc.arch, "cores": soc.cores, "mhz": soc.mhz, "peak_tflops": soc.peak_tflops},
        "shape": vars(shape) | {"flops": shape.flops},
        "schedule": found.schedule.to_json(),
        "microseconds": found.microseconds,
        "low": found.low,
        "high": found.high,
        "band_is_measured": found.band.measured,
        "caveats": [{"id": name, **caveat(name).to_json()} for name in found.caveats],
        "bound": found.bound,
        "busy": dict(found.busy),
        "cycles": dict(found.cycles),
        "buffers": {
            level: {"used": buffer.used, "capacity": buffer.capacity, "parts": dict(buffer.parts)}
            for level, buffer in found.buffers.items()
        },
        "tflops": found.tflops,
        "mfu": found.mfu,
        "tiles": found.tiles,
        "cycles_per_tile": found.cycles_per_tile,
        "active_cores": found.active_cores,
        "l2_hit_rate": found.l2_hit_rate,
    }


def _show(found: Prediction, schedule_name: str) -> None:
    soc, shape = found.soc, found.shape
    tell(
        say(
            "{soc}，{cores} 核；B {b}，N {n1}/{n2}，S {s1}×{s2}，D {d}，{dtype}，{mask}；调度 {schedule}",
            "{soc}, {cores} cores; B {b}, N {n1}/{n2}, S {s1}x{s2}, D {d}, {dtype}, {mask}; schedule {schedule}",
            soc=soc.name,
            cores=soc.cores,
            b=shape.batch,
            n1=shape.num_heads,
            n2=shape.num_kv_heads,
            s1=shape.seq_q,
            s2=shape.seq_kv,
            d=shape.head_dim,
            dtype=shape.dtype,
            mask=say("causal 掩码", "causal") if shape.causal else say("无掩码", "no mask"),
            schedule=schedule_name,
        )
    )
    tell(
        say(
            "预测 {us:.1f} us，误差带 {low:.1f} 到 {high:.1f} us（{band}）；{tflops:.1f} TFLOPS，"
            "是 Cube 峰值 {peak:.0f} 的 {mfu:.0f} %",
            "predicted {us:.1f} us, between {low:.1f} and {high:.1f} us ({band}); {tflops:.1f} TFLOPS, "
            "{mfu:.0f} % of the Cube's {peak:.0f}",
            band=say("由实测得出", "from measurements")
            if found.band.measured
            else say("推测，没有相近的实测", "a guess"),
            us=found.microseconds,
            low=found.low,
            high=found.high,
            tflops=found.tflops,
            mfu=100 * found.mfu,
            peak=soc.peak_tflops,
        )
    )
    for name in found.caveats:
        tell(say("! {it}", "! {it}", it=caveat(name)))
    fullest = found.busy[found.bound]
    if fullest >= FULL:
        tell(say("瓶颈：{it}", "bound by {it}", it=PIPES[found.bound]))
    else:
        tell(
            say(
                "没有一条流水线满（最忙的是 {it}，{percent:.0f} %）：它们在互相等待",
                "no pipe is full (the fullest is {it}, {percent:.0f} %): they wait for one another",
                it=PIPES[found.bound],
                percent=100 * fullest,
            )
        )
    console().print(_pipes(found))
    console().print(_buffers(found.buffers))


def _pipes(found: Prediction) -> Table:
    table = _table(say("各流水的忙碌比例（占核工作时间）", "how busy each pipe is (share of the core's time)"))
    for name, ratio in found.busy.items():
        style = "bold" if name == found.bound else ""
        table.add_row(Styled(str(PIPES[name]), style=style), f"{100 * ratio:.0f} %", _bar(ratio, style))
    return table


def _buffers(buffers: Mapping[str, Buffer]) -> Table:
    table = _table(say("每个核的缓冲区（KiB）", "buffers of a core (KiB)"))
    for level, buffer in buffers.items():
        ratio = buffer.used / buffer.capacity
        parts = ", ".join(f"{part_name(name)} {size / 1024:.4g}" for name, size in buffer.parts.items() if size)
        used = f"{buffer.used / 1024:.4g} / {buffer.capacity / 1024:.4g}"
        table.add_row(str(MEMORIES[level]), used, Styled(f"{100 * ratio:.0f} %  {parts}"))
    return table


def _table(title: Any) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1), title=str(title), title_justify="left", title_style="")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    return table


def _bar(ratio: float, style: str) -> Styled:
    full = round(min(1.0, ratio) * BAR)
    return Styled("█" * full + "·" * (BAR - full), style=style or "bright_black")
