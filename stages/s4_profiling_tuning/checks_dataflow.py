"""Checks of s4-dataflow: every stage where it belongs, two queues that come to their end, a Cube that leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.checking.compare import returned
from grader.vocabulary import Context, check, say

from . import dataflow_rules as rules
from .dataflow_rules import LEAD, Step, Stuck

FLOW, STAGES, RUNS = "backward_dataflow", "s4-dataflow.stages", "s4-dataflow.runs"
TASKS = (1, 2, 3, 7)


def _queues(ctx: Context, tasks: int, template: str) -> dict[str, list[Step]]:
    value = ctx.subject.call(FLOW, tasks, template).value
    queues = {}
    for unit in ("cube", "vector"):
        steps = value.get(unit) if isinstance(value, Mapping) else None
        if not isinstance(steps, (list, tuple)) or not all(_is_step(step) for step in steps):
            ctx.fail(
                say(
                    '应返回 {{"cube": [(阶段, 任务号), ...], "vector": [...]}}，得到 {got}。',
                    'It must return {{"cube": [(stage, task), ...], "vector": [...]}}, it returned {got}.',
                    got=returned(value),
                ),
                misconception="wrong-return",
                evidence={"got": returned(value)},
            )
        queues[unit] = [(step[0], step[1]) for step in steps]
    return queues


def _is_step(step: Any) -> bool:
    return isinstance(step, (tuple, list)) and len(step) == 2 and isinstance(step[0], str) and type(step[1]) is int


def _require_stages(ctx: Context, tasks: int, template: str) -> dict[str, list[Step]]:
    """Every stage of every task once, on the unit that can do it."""
    queues = _queues(ctx, tasks, template)
    for unit, steps in queues.items():
        want = [(stage, task) for task in range(tasks) for stage in rules.stages(template)[unit]]
        lost, added = sorted(set(want) - set(steps)), sorted(set(steps) - set(want))
        again = sorted({step for step in steps if steps.count(step) > 1})
        if lost or added or again:
            late = template == "BN2GS1S2" and {stage for stage, _ in added} <= {"V5", "V6"} and not lost and not again
            ctx.fail(
                say(
                    "{case}：{unit} 少了 {lost}，多了 {added}，重复 {again}。",
                    "{case}: {unit} lacks {lost}, has {added} too many, repeats {again}.",
                    case=_case(tasks, template),
                    unit=unit,
                    lost=_spelt(lost),
                    added=_spelt(added),
                    again=_spelt(again),
                ),
                misconception="flow-post" if late and added else _crossed(queues),
                evidence={"case": _case(tasks, template), "expected": _spelt(want, 12), "got": _spelt(steps, 12)},
            )
    return queues


def _crossed(queues: Mapping[str, list[Step]]) -> str | None:
    """A product on the Vector, or element-wise work on the Cube."""
    wrong = {stage for stage, _ in queues["cube"] if stage.startswith("V")}
    wrong |= {stage for stage, _ in queues["vector"] if stage.startswith("C")}
    return "flow-unit" if wrong else None


def _case(tasks: int, template: str) -> str:
    return f"tasks={tasks}, {template}"


def _spelt(steps: list[Step], most: int = 6) -> str:
    named = [f"{stage}({task})" for stage, task in steps[:most]] + ["..."] * (len(steps) > most)
    return " ".join(named) or "-"


@check(STAGES, points=1, concept="dataflow")
def dataflow_stages(ctx: Context) -> None:
    """Both templates, one task and several."""
    for template in LEAD:
        for tasks in TASKS:
            _require_stages(ctx, tasks, template)


@check(RUNS, points=2, concept="dataflow", needs=(STAGES,))
def dataflow_runs(ctx: Context) -> None:
    """Two in-order queues with the data and the slots of the hardware: both come to their end."""
    for template in LEAD:
        for tasks in (*TASKS, int(ctx.rng(template).integers(9, 20))):
            queues = _require_stages(ctx, tasks, template)
            stuck = rules.run(template, queues["cube"], queues["vector"])
            if stuck:
                _fail_stuck(ctx, _case(tasks, template), queues, stuck)


def _fail_stuck(ctx: Context, case: str, queues: Mapping[str, list[Step]], stuck: list[Stuck]) -> None:
    behind = [one for one in stuck if any(one.step in queue and one.other in queue for queue in queues.values())]
    one = (behind or stuck)[0]
    told = say(
        "{case}：停住了。{step} 要等 {other}",
        "{case}: it stands still. {step} waits for {other}",
        case=case,
        step=_spelt([one.step]),
        other=_spelt([one.other]),
    )
    told = told.plus(
        say("，因为要读它的结果", ", whose result it reads")
        if one.slot is None
        else say(
            "，因为 {slot} 的槽位还没有用完",
            ", which is not done with the slot of {slot}",
            slot=one.slot,
        ),
        "",
    )
    if behind:
        told = told.plus(say("，而后者排在同一个队列的后面。", ", and that stands behind it in the same queue."), "")
    else:
        second = stuck[-1]
        told = told.plus(
            say(
                "，后者所在的队列停在 {second}，它又在等 {third}。",
                ", whose queue stands at {second}, which waits for {third}.",
                second=_spelt([second.step]),
                third=_spelt([second.other]),
            ),
            "",
        )
    early = any(s.slot in ("S", "dP") and s.step[0] in rules.EARLY for s in stuck)
    ctx.fail(
        told,
        misconception="flow-too-far" if early else "flow-read-first" if behind and one.slot is None else None,
        evidence={"case": case, "expected": "-", "got": _spelt([s.step for s in stuck])},
    )


@check("s4-dataflow.lead", points=2, concept="dataflow", needs=(STAGES, RUNS))
def dataflow_lead(ctx: Context) -> None:
    """The products that feed the Vector are issued ahead, as far as the slots allow."""
    for template, lead in LEAD.items():
        for tasks in (5, int(ctx.rng(template).integers(9, 20))):
            queues = _require_stages(ctx, tasks, template)
            found = rules.leads(queues["cube"], tasks)
            short = [task for task, ahead in enumerate(found) if ahead < min(lead, tasks - 1 - task)]
            if short:
                task = short[0]
                ctx.fail(
                    say(
                        "{case}：Cube 回头做任务 {task} 的 C5、C3、C4 时，后面只有 {ahead} 个任务的 C2、C1 已经发出，"
                        "应有 {lead} 个：Vector 算完之前 Cube 没有别的事做。",
                        "{case}: when the Cube comes back for C5, C3, C4 of task {task}, C2 and C1 of {ahead} later "
                        "tasks have been issued, not of {lead}: until the Vector is done the Cube has nothing to do.",
                        case=_case(tasks, template),
                        task=task,
                        ahead=found[task],
                        lead=lead,
                    ),
                    misconception="flow-serial" if max(found) == 0 else "flow-lead" if len(short) > 1 else None,
                    evidence={"case": _case(tasks, template), "expected": lead, "got": found[task]},
                )
