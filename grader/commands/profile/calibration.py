"""``profile calibration``: what the model says beside what was measured, row by row and by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text as Styled

from grader.commands.base import print_json, tell
from grader.exit_codes import PASSED
from grader.text import say
from grader.views.terminal import console
from kernels.perf.calibration import Row, calibrate, median_error, worst_error


def calibration(as_json: bool) -> int:
    rows = calibrate()
    groups = list(dict.fromkeys(row.group for row in rows))
    rows.sort(key=lambda row: groups.index(row.group))
    if as_json:
        print_json({"rows": [_plain(row) for row in rows], "groups": [_group(*group) for group in _groups(rows)]})
        return PASSED
    out = console()
    out.print(_rows(rows))
    out.print(_summary(rows))
    tell(
        say(
            "拟合：模型的常数由这些行得出；留出：没有参与。python loop、bench harness 各组在主机侧计时，含启动开销。",
            "fit: the model's constants come from these rows; holdout: they do not. Groups called python loop or "
            "bench harness were timed by the host, launching included.",
        )
    )
    return PASSED


def _plain(row: Row) -> dict[str, Any]:
    return {
        "group": row.group,
        "part": row.part,
        "soc": row.soc.name,
        "kernel": row.kernel,
        "shape": _sizes(row),
        "dtype": row.shape.dtype,
        "mask_mode": row.shape.mask_mode,
        "timed_on_device": row.device,
        "measured_us": row.measured,
        "predicted_us": row.predicted,
        "error": row.error,
        "source": row.source,
    }


def _sizes(row: Row) -> list[int]:
    s = row.shape
    return [s.batch, s.num_heads, s.num_kv_heads, s.seq_q, s.seq_kv, s.head_dim]


def _groups(rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.group, row.part), []).append(row)
    return [(group, part, members) for (group, part), members in found.items()]


def _group(group: str, part: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "group": group,
        "part": part,
        "rows": len(rows),
        "median_error": median_error(rows),
        "worst_error": worst_error(rows),
    }


def _part(part: str) -> str:
    return str(say("拟合", "fit") if part == "fit" else say("留出", "holdout"))


def _rows(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.caption = str(say("时间单位 us", "times in us"))
    table.add_column("B,N1,N2,S1,S2,D", overflow="fold", width=30)
    for head in (say("实测", "measured"), say("预测", "predicted"), say("误差", "error")):
        table.add_column(str(head), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    kernel = None
    for row in rows:
        if (row.group, row.kernel) != kernel:
            kernel = row.group, row.kernel
            table.add_row(Styled(f"{row.group}: {row.kernel}", style="bold"))
        sizes = ",".join(map(str, _sizes(row))) + (" causal" if row.shape.causal else "") + _host(row)
        times = f"{row.measured:.1f}", f"{row.predicted:.1f}", f"{100 * row.error:+.1f} %"
        table.add_row(sizes, *times, _part(row.part))
    return table


def _host(row: Row) -> str:
    """Which of two hosts timed it, where the source tells two apart."""
    return next((f" {host}" for host in ("aarch64", "x86") if row.source.endswith(host)), "")


def _summary(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column(str(say("组", "group")), overflow="fold")
    table.add_column("", no_wrap=True)
    for head in (say("行", "rows"), say("误差中位数", "median error"), say("最大", "worst")):
        table.add_column(str(head), justify="right", no_wrap=True)
    on_device = [row for row in rows if row.device]
    for group, part, members in [
        *_groups(rows),
        (str(say("设备侧计时的行", "timed on the device")), "", on_device),
        (str(say("全部", "all")), "", list(rows)),
    ]:
        errors = f"{100 * median_error(members):.1f} %", f"{100 * worst_error(members):+.1f} %"
        table.add_row(group, _part(part) if part else "", str(len(members)), *errors)
    return table
