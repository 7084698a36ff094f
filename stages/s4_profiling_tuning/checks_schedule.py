"""Checks of s4-schedule: a choice has to fit the chip, and to be near the best of a sweep by the performance model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.checking.model_errors import in_words
from grader.vocabulary import Context, check, say
from kernels.perf import BadSchedule, Deadlock, NoPath, Refused, Schedule, predict

from . import schedule_cases as cases
from .plain_values import require_dict, shown
from .schedule_cases import ALLOWED, BLOCK_Q, FIELDS, Choice


def _chosen(ctx: Context, case: Choice) -> Schedule:
    value = require_dict(ctx, ctx.subject.call("choose_schedule", *case.arguments()).value, ())
    foreign = [str(key) for key in value if key not in FIELDS]
    if foreign:
        ctx.fail(
            say(
                "只能选 {fields}，没有 {got}。",
                "The choices are {fields}; {got} is none of them.",
                fields=", ".join(FIELDS),
                got=foreign[0],
            ),
            misconception="schedule-not-a-schedule",
            evidence={"got": shown(value)},
        )
    try:
        schedule = Schedule.from_json({**case.base.to_json(), **value})
    except BadSchedule as error:
        ctx.fail(in_words(error), misconception="schedule-not-a-schedule", evidence={"got": shown(value)})
    if schedule.block_q not in BLOCK_Q:
        ctx.fail(
            say(
                "block_q 应是 64、96 或 128，得到 {got}。", "block_q is 64, 96 or 128, not {got}.", got=schedule.block_q
            ),
            misconception="schedule-not-a-schedule",
        )
    return schedule


def _require_it_runs(ctx: Context, case: Choice, schedule: Schedule) -> None:
    try:
        predict(case.soc, case.shape, schedule)
    except Refused as error:
        kinds = {type(reason) for reason in error.reasons}
        idea = "schedule-overflows"
        if NoPath in kinds:
            idea = "schedule-no-path"
        elif Deadlock in kinds:
            idea = "schedule-deadlock"
        ctx.fail(
            say("{case}：{text}", "{case}: {text}", case=case, text=in_words(error)),
            misconception=idea,
            evidence={"case": str(case), "got": _spelt(schedule)},
        )


def _spelt(schedule: Schedule) -> str:
    return ", ".join(f"{field}={getattr(schedule, field)}" for field in FIELDS)


def _require_fast(ctx: Context, drawn: Sequence[Choice], ideas: Mapping[str, str]) -> None:
    """``ideas``: field -> what to name when its value alone makes every slow answer slow, whatever goes with it."""
    slow = []
    for case in drawn:
        schedule = _chosen(ctx, case)
        _require_it_runs(ctx, case, schedule)
        ratio = case.ratio(schedule)
        if ratio > ALLOWED:
            slow.append((case, schedule, ratio))
    if not slow:
        return
    guilty = [
        idea
        for field, idea in ideas.items()
        if all(case.hopeless(**{field: _in_sweep(field, schedule)}) for case, schedule, _ in slow)
    ]
    case, schedule, ratio = slow[0]
    ctx.fail(
        say(
            "{case}：{schedule} 用时是扫描最优的 {ratio:.2f} 倍，要求不超过 {allowed} 倍。",
            "{case}: {schedule} takes {ratio:.2f} times the best of the sweep; {allowed} are allowed.",
            case=case,
            schedule=_spelt(schedule),
            ratio=ratio,
            allowed=ALLOWED,
        ),
        misconception=guilty[0] if len(slow) > 1 and len(guilty) == 1 else None,
        evidence={"case": str(case), "got": f"{ratio:.3f}", "expected": f"<= {ALLOWED}"},
    )


def _in_sweep(field: str, schedule: Schedule) -> int:
    """The value of a field; less running ahead than the sweep tries is no better than the least that it tries."""
    value: int = getattr(schedule, field)
    return max(1, value) if field == "preload" else value


@check("s4-schedule.fits", points=2, concept="buffers")
def schedule_fits(ctx: Context) -> None:
    """Every generation, head dim and mask: no overflow, no missing wire, no deadlock."""
    drawn = [cases.long(ctx.rng(f"950 {d} {m}"), cases.ON_CHIP, d, m) for d in (64, 128) for m in (0, 3)]
    drawn += [cases.deep(ctx.rng(f"950 256 {m}"), m) for m in (0, 3)]
    drawn += [cases.long(ctx.rng(f"910 {d} {m}"), cases.THROUGH_GM, d, m) for d in (64, 128) for m in (0, 3)]
    drawn += [cases.two_waves(ctx.rng("waves")), cases.few_rows(ctx.rng("rows"))]
    for case in drawn:
        _require_it_runs(ctx, case, _chosen(ctx, case))


@check("s4-schedule.on-chip", points=3, concept="schedule", needs=("s4-schedule.fits",))
def schedule_on_chip(ctx: Context) -> None:
    """Long sequences on a 950: large tiles and C1 two tiles ahead."""
    drawn = [
        cases.long(ctx.rng(0), cases.ON_CHIP, 128),
        cases.deep(ctx.rng(1)),
        cases.long(ctx.rng(2), cases.ON_CHIP, 128, 3),
    ]
    _require_fast(ctx, drawn, {"block_q": "schedule-small-tile", "preload": "schedule-preload"})


@check("s4-schedule.through-gm", points=3, concept="schedule", needs=("s4-schedule.fits",))
def schedule_through_gm(ctx: Context) -> None:
    """Long sequences on a 910B, where S, P and O go through global memory: wide tiles."""
    drawn = [cases.long(ctx.rng(n), cases.THROUGH_GM, d) for n, d in enumerate((128, 64))]
    _require_fast(ctx, drawn, {"block_kv": "schedule-narrow-tile", "preload": "schedule-preload"})


@check("s4-schedule.waves", points=2, concept="waves", needs=("s4-schedule.fits",))
def schedule_waves(ctx: Context) -> None:
    """Few row blocks: 96 rows fill two waves on a 950, 64 rows are all there are on a 910B."""
    drawn = [case for n in range(2) for case in (cases.two_waves(ctx.rng(n)), cases.few_rows(ctx.rng(n)))]
    _require_fast(ctx, drawn, {"block_q": "schedule-waves", "preload": "schedule-preload"})
