import json
from dataclasses import replace
from pathlib import Path

from kernels.perf import Refused, Schedule, Shape, find_soc, predict

# zh: 四个起点：芯片、形状、调度。后面是可以改的参数；别的字段要保持起点的值。
# en: Four starts: chip, shape, schedule. Then the knobs that may be turned; every other field stays as in the start.
USUAL, DEEP = Shape(1, 16, 16, 4096, 4096, 128), Shape(1, 16, 16, 4096, 4096, 256)
SLOTS = ("q_slots", "k_slots", "v_slots", "p_slots", "s_slots", "o_slots", "shared_so")
ALL = ("block_q", "block_kv", "preload", *SLOTS)
CASES = {
    "block-size": (find_soc("950PR"), USUAL, Schedule(block_q=64), ALL),
    "overflow": (find_soc("950PR"), DEEP, Schedule(block_q=64), ALL),
    "on-chip": (find_soc("950PR"), USUAL, Schedule(p_path="gm"), (*ALL, "p_path")),
    "preload": (find_soc("950PR"), USUAL, Schedule(preload=1, s_slots=1, p_slots=1), ("preload", *SLOTS)),
}


def attempt(name: str, **knobs: object) -> Schedule:
    """The start of a case with some knobs turned; prints what that gains, or why the chip cannot run it."""
    soc, shape, start, _ = CASES[name]
    schedule = replace(start, **knobs)
    try:
        found = predict(soc, shape, schedule)
    except Refused as error:
        print(f"{name}: {error}")
        return schedule
    gain = predict(soc, shape, start).microseconds / found.microseconds - 1
    busy = " ".join(f"{pipe} {share:.2f}" for pipe, share in found.busy.items())
    print(f"{name}: {found.microseconds:.0f} us, {gain:+.0%}; {busy}")
    return schedule


# zh: 每个起点配一个调好的调度：先看哪条流水线满了，再决定改哪个参数。多试几次没有关系。
# en: One tuned schedule for each start: see which pipe is full, then decide which knob to turn. Try as often as you
# en: like.
### BEGIN SOLUTION
schedules = {
    # zh: MTE2 满了：同样的 K、V 喂给两倍的行
    # en: MTE2 is full: feed twice the rows from the same K and V
    "block-size": attempt("block-size", block_q=128),
    # zh: (128, 128) 的双缓冲放不下；S、O 各留一份，块就不用缩小
    # en: (128, 128) with double buffers does not fit; with one slot each for S and O the tile need not shrink
    "overflow": attempt("overflow", block_q=128, s_slots=1, o_slots=1),
    # zh: P 从 UB 直接进 L1，不绕 GM
    # en: P goes from UB straight to L1, not through global memory
    "on-chip": attempt("on-chip", p_path="chip"),
    # zh: 多跑一块在前面，也要有地方放
    # en: run one tile further ahead, with room to keep it
    "preload": attempt("preload", preload=2, s_slots=2, p_slots=3),
}
### END SOLUTION
text = json.dumps({name: schedule.to_json() for name, schedule in schedules.items()}, indent=1)
print(Path("schedules.json").write_text(text, encoding="utf-8"), "bytes in schedules.json")
