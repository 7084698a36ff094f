"""``profile sweep``: time against tile size, over schedules that the model tries one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text as Styled

from grader.checking.model_errors import in_words
from grader.commands.base import print_json, short, stop, tell
from grader.exit_codes import PASSED
from grader.profiling import asking
from grader.text import say
from grader.views.progress import counting
from grader.views.terminal import console
from kernels.perf import Schedule, Shape, Soc
from kernels.perf.sweeping import Outcome, best, grid
from kernels.perf.sweeping import sweep as try_all

SHOWN = 10  # schedules in the terminal
# Where scores travel through global memory, long tiles are what tuning is about.
COLUMNS = {"3510": (64, 96, 128, 192, 256, 384, 512), "2201": (64, 128, 192, 256, 384, 512, 1024)}

Times = dict[tuple[int, int], float | None]


def sweep(
    soc_name: str, shape_text: str, dtype: str, mask: str, schedule_name: str | None, out: Path | None, as_json: bool
) -> int:
    soc = asking.chip(soc_name)
    shape = asking.size(shape_text, dtype, mask)
    schedules = _schedules(soc, shape, schedule_name)
    if out is not None and out.suffix.casefold() not in (".html", ".htm"):
        stop(say("--out 要以 .html 结尾：{out}", "--out must end in .html: {out}", out=out))
    with counting(say("预测", "predicting"), len(schedules)) as done:
        outcomes = try_all(soc, shape, schedules, done)
    winner = best(outcomes)
    if winner is None:
        first = next(one.refused for one in outcomes if one.refused)
        stop(
            say(
                "{n} 个调度没有一个放得下。例如{why}",
                "none of {n} schedules fits. For one, {why}",
                n=len(outcomes),
                why=in_words(first),
            )
        )
    times = by_tile(outcomes)
    if as_json:
        print_json(_document(soc, outcomes))
    else:
        _show(soc, outcomes, times)
    if out is not None:
        from grader.profiling.page import sweep_page
        from grader.reports.write import save

        save(out, sweep_page(soc, shape, times, winner))
        if not as_json:
            tell(say("图：{out}", "picture: {out}", out=short(out)))
    return PASSED


def _schedules(soc: Soc, shape: Shape, schedule_name: str | None) -> list[Schedule]:
    base = asking.order(schedule_name or asking.usual(soc), soc, shape)
    if schedule_name is None:
        return list(grid(base, block_kv=COLUMNS[soc.arch]))
    slots = ((base.s_slots, base.o_slots, base.p_slots),)
    return list(grid(base, block_kv=COLUMNS[soc.arch], preload=(base.preload,), slots=slots))


def by_tile(outcomes: Sequence[Outcome]) -> Times:
    """(block_q, block_kv) -> the best time with these tiles, None where no schedule is legal."""
    times: Times = {}
    for outcome in outcomes:
        tile = outcome.schedule.block_q, outcome.schedule.block_kv
        before = times.setdefault(tile, None)
        if outcome.prediction and (before is None or outcome.microseconds < before):
            times[tile] = outcome.microseconds
    return times


def _document(soc: Soc, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "soc": soc.name,
        "schedules": [
            {"schedule": one.schedule.to_json(), "microseconds": one.microseconds if one.prediction else None}
            for one in outcomes
        ],
    }


def _show(soc: Soc, outcomes: Sequence[Outcome], times: Times) -> None:
    legal = sorted((one for one in outcomes if one.prediction), key=lambda one: one.microseconds)
    tell(
        say(
            "{soc}：{n} 个调度，其中 {legal} 个放得下",
            "{soc}: {n} schedules, {legal} of them fit",
            soc=soc.name,
            n=len(outcomes),
            legal=len(legal),
        )
    )
    out = console()
    out.print(_map(times, legal[0].microseconds))
    out.print(_best(legal[:SHOWN]))


def _map(times: Times, least: float) -> Table:
    """Rows block_q, columns block_kv; the nearer to the best, the greener."""
    columns = sorted({tile[1] for tile in times})
    title = say(
        "时间（us），行 block_q，列 block_kv，– 放不下", "time (us), rows block_q, columns block_kv, – does not fit"
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), title=str(title), title_justify="left", title_style="")
    table.add_column("", justify="right")
    for column in columns:
        table.add_column(str(column), justify="right", no_wrap=True)
    for row in sorted({tile[0] for tile in times}):
        cells = [times[row, column] for column in columns]
        table.add_row(str(row), *(_cell(value, least) for value in cells))
    return table


def _cell(value: float | None, least: float) -> Styled:
    if value is None:
        return Styled("–", style="bright_black")
    ratio = value / least
    return Styled(f"{value:.0f}", style="bold green" if ratio < 1.02 else "green" if ratio < 1.25 else "yellow")


def _best(outcomes: Sequence[Outcome]) -> Table:
    title = say("最快的调度", "the fastest schedules")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), title=str(title), title_justify="left", title_style="")
    for head in ("us", "block_q", "block_kv", "preload", "s/o/p slots", str(say("瓶颈", "bound"))):
        table.add_column(head, justify="right", no_wrap=True)
    for one in outcomes:
        s = one.schedule
        assert one.prediction is not None
        slots = f"{s.s_slots}/{s.o_slots}/{s.p_slots}"
        sizes = str(s.block_q), str(s.block_kv), str(s.preload), slots
        table.add_row(f"{one.microseconds:.1f}", *sizes, one.prediction.bound)
    return table
