"""How well does the performance model give what was measured, and how fast is it?

    python -m benchmarks.calibration [--rows] [--refit]

Prints medians and worst errors per group of ``kernels/perf/fa_calibration.csv``, fit and holdout apart; the ladder of
flash_attn_lite on a 950 in order; the counters of a profile of an A2; the time of a prediction and of a sweep.
``--rows`` adds every row, ``--refit`` fits the constants again on the fit rows alone (minutes) and shows the holdout
with them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable

from rich.progress import Progress

from benchmarks.refit import refit
from kernels.perf import SCHEDULES, Schedule, Shape, find_soc, grid, predict, sweep
from kernels.perf.calibration import A2_CORE_MICROSECONDS, A2_COUNTERS, Row, calibrate, median_error, worst_error

SPEED_SHAPE = Shape(1, 16, 16, 4096, 4096, 128)


def table(rows: Iterable[Row]) -> None:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
        groups.setdefault("all timed on the device" if row.device else "all timed from the host", []).append(row)
        groups.setdefault("all forward rows", []).append(row)
    print("| rows | fit: n, median, worst | holdout: n, median, worst | all: median |")
    print("|---|---|---|---|")
    for name in sorted(groups, key=lambda name: (name.startswith("all"), name)):
        halves = [[row for row in groups[name] if row.part == part] for part in ("fit", "holdout")]
        cells = [f"{len(half)}, {_percent(half)}" if half else "-" for half in halves]
        print(f"| {name} | {cells[0]} | {cells[1]} | {median_error(groups[name]):.1%} |")


def _percent(rows: list[Row]) -> str:
    return f"{median_error(rows):.1%}, {worst_error(rows):+.1%}"


def ladder(rows: Iterable[Row]) -> None:
    steps = [row for row in rows if row.group == "950 ladder" and row.soc.cores == 32]
    steps.sort(key=lambda row: -row.measured)
    order = "right" if sorted(steps, key=lambda row: -row.predicted) == steps else "WRONG"
    print(f"\nThe ladder of flash_attn_lite, cycles per 128x128 tile; order {order}\n")
    print("| step | predicted | measured | error | faster than before: predicted, measured |\n|---|---|---|---|---|")
    for before, row in zip([None, *steps], steps):
        per_us = row.soc.mhz * row.soc.cores / row.prediction.tiles
        cells = [row.kernel.removeprefix("flash_attn_lite "), f"{row.predicted * per_us:.0f}"]
        cells += [f"{row.measured * per_us:.0f}", f"{row.error:+.1%}"]
        cells += [f"{before.predicted / row.predicted:.2f}, {before.measured / row.measured:.2f}" if before else ""]
        print(f"| {' | '.join(cells)} |")


def counters(rows: Iterable[Row]) -> None:
    row = next(row for row in rows if row.measured == 407.1)
    print("\nCounters of the profile of an A2 (CANN, causal, 407.1 us)\n")
    print("| | predicted | measured | error |\n|---|---|---|---|")
    core = row.prediction.core_microseconds
    print(f"| core time, us | {core:.0f} | {A2_CORE_MICROSECONDS:.0f} | {core / A2_CORE_MICROSECONDS - 1:+.0%} |")
    for pipe, measured in A2_COUNTERS.items():
        busy = row.prediction.busy[pipe]
        print(f"| {pipe} | {busy:.3f} | {measured:.3f} | {busy / measured - 1:+.0%} |")


def speed() -> None:
    chip, a2 = find_soc("950PR"), find_soc("910B3")
    cases = {"950PR, the default": (chip, Schedule()), "950PR, v8": (chip, SCHEDULES["v8"])}
    cases |= {"910B3, cann": (a2, SCHEDULES["cann"]), "910B3, pto": (a2, SCHEDULES["pto"])}
    print("\n| prediction | median of 50, processor time |\n|---|---|")
    for name, (soc, schedule) in cases.items():
        seconds = []
        for _ in range(50):
            start = time.process_time()
            predict(soc, SPEED_SHAPE, schedule)
            seconds.append(time.process_time() - start)
        print(f"| {name} | {statistics.median(seconds) * 1e3:.1f} ms |")
    schedules = list(grid())
    with Progress(transient=True) as progress:
        task = progress.add_task("sweep", total=len(schedules))
        start, busy = time.perf_counter(), time.process_time()
        outcomes = sweep(chip, SPEED_SHAPE, schedules, progress=lambda done: progress.update(task, completed=done))
        took, busy = time.perf_counter() - start, time.process_time() - busy
    legal = sum(outcome.prediction is not None for outcome in outcomes)
    print(
        f"\nA sweep of {len(outcomes):,} schedules, {legal} of them legal: {took:.1f} s, {busy:.1f} s of processor time"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", action="store_true", help="every row")
    parser.add_argument("--refit", action="store_true", help="fit the constants again on the fit rows alone")
    args = parser.parse_args()
    rows = calibrate()
    table(rows)
    ladder(rows)
    counters(rows)
    speed()
    if args.rows:
        print("\n| group | part | kernel | S1 x S2 | predicted | measured, us | error |\n|---|---|---|---|---|---|---|")
        for row in rows:
            cells = [row.group, row.part, row.kernel, f"{row.shape.seq_q} x {row.shape.seq_kv}"]
            cells += [f"{row.predicted:.1f}", f"{row.measured:.1f}", f"{row.error:+.1%}"]
            print(f"| {' | '.join(cells)} |")
    if args.refit:
        for arch in ("3510", "2201"):
            constants, found = refit(arch)
            print(f"\n{arch}, fitted on its fit rows alone: {', '.join(f'{k} {v:.4g}' for k, v in found.items())}\n")
            table(calibrate({arch: constants}, arch=arch))


if __name__ == "__main__":
    main()
