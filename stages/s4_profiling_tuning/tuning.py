"""The four cases of s4-tune: what may be turned, what was handed in, and what it gains.

The starts and the gains are the performance model's, in kernels.perf.tuning_cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from grader.checking.model_errors import in_words
from grader.vocabulary import Context, say
from kernels.perf import BadSchedule, Deadlock, Prediction, Refused, Schedule, predict
from kernels.perf.tuning_cases import BY_NAME, SHARE, TuningCase

from .plain_values import shown

FILE = "schedules.json"
SLOTS = ("q_slots", "k_slots", "v_slots", "p_slots", "s_slots", "o_slots", "shared_so")
ALL = ("block_q", "block_kv", "preload", *SLOTS)
KNOBS = {"block-size": ALL, "overflow": ALL, "on-chip": (*ALL, "p_path"), "preload": ("preload", *SLOTS)}

# the field that the case is about -> what it means to have left it as it was
UNTURNED = {
    "block-size": ("block_q", "tune-block-q-unchanged"),
    "overflow": ("block_q", "tune-block-q-unchanged"),
    "on-chip": ("p_path", "tune-p-through-gm"),
    "preload": ("preload", "tune-no-preload"),
}


def start_of(case: TuningCase) -> Schedule:
    if case.start is None:
        raise ValueError(f"{case.name} starts from three kernels and has no schedule")
    return case.start


def required_gain(case: TuningCase) -> float:
    """0.39: the time of the start over that of the answer has to be 1.39."""
    return SHARE * case.predicted_gain()


def handed_in(ctx: Context, name: str) -> Schedule:
    """The schedule in schedules.json for one case, with what it may not change as in the start."""
    answers = ctx.artifact(FILE).json()
    if not isinstance(answers, Mapping) or not isinstance(answers.get(name), Mapping):
        ctx.fail(
            say(
                '{file} 应是 {{"{name}": {{...}}, ...}}，里面没有 {name} 的调度。',
                '{file} must be {{"{name}": {{...}}, ...}}; it has no schedule for {name}.',
                file=FILE,
                name=name,
            ),
            misconception="tune-not-a-schedule",
            evidence={"got": shown(answers)},
        )
    start = start_of(BY_NAME[name])
    try:
        schedule = Schedule.from_json({**start.to_json(), **answers[name]})
    except (BadSchedule, TypeError) as error:
        text = in_words(error) if isinstance(error, BadSchedule) else say("字段名不对。", "wrong names of fields.")
        ctx.fail(say("{name}：{text}", "{name}: {text}", name=name, text=text), misconception="tune-not-a-schedule")
    before, after = start.to_json(), schedule.to_json()
    foreign = [field for field in after if after[field] != before[field] and field not in KNOBS[name]]
    if foreign:
        field = foreign[0]
        ctx.fail(
            say(
                "{name} 只能改 {knobs}；{field} 要保持 {want}，得到 {got}。",
                "{name} may turn {knobs}; {field} stays {want}, it is {got}.",
                name=name,
                knobs=", ".join(KNOBS[name]),
                field=field,
                want=before[field],
                got=after[field],
            ),
            misconception="tune-other-knob",
            evidence={"expected": before[field], "got": after[field], "case": field},
        )
    return schedule


def run(ctx: Context, name: str, schedule: Schedule) -> Prediction:
    """What the model predicts; the check fails when the chip cannot run the schedule."""
    case = BY_NAME[name]
    try:
        return predict(case.soc, case.shape, schedule)
    except Refused as error:
        deadlock = any(isinstance(reason, Deadlock) for reason in error.reasons)
        ctx.fail(
            say("{name}：{text}", "{name}: {text}", name=name, text=in_words(error)),
            misconception="tune-deadlock" if deadlock else "tune-overflows",
            evidence={"case": name},
        )


def require_gain(ctx: Context, name: str) -> None:
    """At least 80 % of what the idea of the case gains."""
    case, schedule = BY_NAME[name], handed_in(ctx, name)
    found = run(ctx, name, schedule)
    start_us = case.start_us()
    gain, needed = start_us / found.microseconds - 1, required_gain(case)
    if gain >= needed:
        return
    field, idea = UNTURNED[name]
    busiest = max(found.busy, key=lambda pipe: found.busy[pipe])
    ctx.fail(
        say(
            "{name}：{start:.0f} → {end:.0f} 微秒，提升 {gain:.0%}，要求至少 {needed:.0%}。"
            "最忙的是 {pipe}（{share:.2f}）。",
            "{name}: {start:.0f} -> {end:.0f} us, a gain of {gain:.0%}; {needed:.0%} are asked for. Busiest: {pipe} "
            "({share:.2f}).",
            name=name,
            start=start_us,
            end=found.microseconds,
            gain=gain,
            needed=needed,
            pipe=busiest,
            share=found.busy[busiest],
        ),
        misconception=idea if getattr(schedule, field) == getattr(start_of(case), field) else None,
        evidence={"expected": f">= {needed:.3f}", "got": f"{gain:.3f}"},
    )
