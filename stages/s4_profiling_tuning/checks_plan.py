"""Checks of s4-plan: faults found, found in upstream's order, the route to a template, the fields that are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from grader.checking.compare import returned
from grader.vocabulary import Context, check, say

from . import plan_cases as cases
from . import plan_rules as rules
from .plain_values import idea_behind, require_dict, same, shown
from .plan_cases import Fault
from .plan_rules import Call

PLAN, REFUSES = "plan_backward", "s4-plan.refuses"
KEYS = ("refused", "fields", "key")
Draw = Callable[[np.random.Generator], list[Call]]


def _plan(ctx: Context, call: Call) -> dict[str, Any]:
    return dict(require_dict(ctx, ctx.subject.call(PLAN, deepcopy(call)).value, KEYS))


def _described(call: Call) -> str:
    shapes, axes = call["shapes"], call["layout_q"]
    seen = f"{axes} q={shapes['q']} k={shapes['k']} v={shapes['v']} mask_mode={call['mask_mode']}"
    if call["mask_mode"] == 4:
        seen += f" win={call['win_left']},{call['win_right']}"
    if axes == "TND":
        seen += f" max_seqlen={call['max_seqlen_q']},{call['max_seqlen_kv']}"
    return seen + (" swizzle" if call["swizzle"] else "")


@check(REFUSES, points=1, concept="tiling-pipeline")
def plan_refuses(ctx: Context) -> None:
    """One fault at a time: the check that finds it; and calls without any."""
    for number, fault in enumerate(cases.FAULTS):
        rng = ctx.rng(f"fault {number}")
        sound, bad = fault.base(rng), cases.spoilt(ctx.rng(f"fault {number}"), fault)
        got = _plan(ctx, bad)["refused"]
        if got != fault.word:
            ctx.fail(
                say(
                    '有错的调用：{told}。应拒绝，refused 为 "{word}"，得到 {got}。',
                    'A call with a fault: {told}. It must be refused, with refused "{word}"; got {got}.',
                    told=fault.told,
                    word=fault.word,
                    got=returned(got),
                ),
                misconception=(fault.misconception or "plan-missed") if got is None else "plan-wrong-check",
                evidence={"case": _described(sound), "expected": fault.word, "got": returned(got)},
            )
        got = _plan(ctx, sound)["refused"]
        if got is not None and rules.right(sound)["refused"] is None:
            ctx.fail(
                say(
                    "没有错的调用被 {got} 拒绝了：{case}",
                    "A call without a fault is refused by {got}: {case}",
                    got=returned(got),
                    case=_described(sound),
                ),
                misconception="plan-refuses-valid",
                evidence={"case": _described(sound), "expected": "None", "got": returned(got)},
            )


@check("s4-plan.order", points=1, concept="tiling-pipeline", needs=(REFUSES,))
def plan_order(ctx: Context) -> None:
    """Two faults at once: the check that comes first speaks."""
    words = list(rules.CHECKS)
    for number, (first, second) in enumerate(_pairs(ctx)):
        call = cases.spoilt(ctx.rng(f"pair {number}"), first, second)
        want, got = rules.right(call)["refused"], _plan(ctx, call)["refused"]
        if got != want:
            known = got in words and words.index(got) > words.index(want)
            ctx.fail(
                say(
                    '同时有两个错：{first}；{second}。先做的检查是 "{want}"，得到 {got}。',
                    'Two faults at once: {first}; {second}. The check that comes first is "{want}"; got {got}.',
                    first=first.told,
                    second=second.told,
                    want=want,
                    got=returned(got),
                ),
                misconception="plan-order" if known else None,
                evidence={"case": _described_faults(first, second), "expected": want, "got": returned(got)},
            )


def _described_faults(first: Fault, second: Fault) -> str:
    return f"{first.told.en}; {second.told.en}"


def _pairs(ctx: Context) -> Sequence[tuple[Fault, Fault]]:
    """For every two checks two faults that can stand in one call, drawn anew for every learner."""
    words, pairs = list(rules.CHECKS), []
    dense = [fault for fault in cases.FAULTS if fault.layout == "BSND"]
    for place, early in enumerate(words):
        for late in words[place + 1 :]:
            rng = ctx.rng(f"{early} {late}")
            some = [(a, b) for a in dense for b in dense if (a.word, b.word) == (early, late)]
            pairs.append(some[int(rng.integers(len(some)))])
    return pairs


def _require_fields(ctx: Context, draw: Draw, ideas: Sequence[str], names: Sequence[str]) -> list[tuple[Call, Any]]:
    """Refused or not, and the fields in ``names``, are the plan's. Returns what was asked and what came back."""
    seen = [(call, _plan(ctx, call)) for call in draw(ctx.rng())]
    for call, got in seen:
        want = rules.right(call)
        if got["refused"] != want["refused"]:
            name, wanted, found = "refused", want["refused"], got["refused"]
        else:
            wrong = [name for name in names if not same(_field(got, name), _field(want, name))]
            if not wrong:
                continue
            name, wanted, found = wrong[0], want["fields"][wrong[0]], _field(got, wrong[0])
        idea = idea_behind(
            [(asked, _picked(answer, names)) for asked, answer in seen],
            lambda asked: _picked(rules.right(asked), names),
            [(idea, partial(_mistaken, idea, names, any_key)) for idea in ideas for any_key in (False, True)],
        )
        ctx.fail(
            say(
                "{case}：{name} 应是 {want}，得到 {got}。",
                "{case}: {name} must be {want}, got {got}.",
                case=_described(call),
                name=name,
                want=wanted,
                got=returned(found),
            ),
            misconception=idea or ("plan-no-binary" if wanted == "binary" else None),
            evidence={"case": _described(call), "expected": shown(wanted), "got": returned(found)},
        )
    return seen


def _field(answer: dict[str, Any], name: str) -> Any:
    return answer["fields"].get(name) if isinstance(answer["fields"], dict) else None


def _picked(answer: dict[str, Any], names: Sequence[str]) -> Any:
    return answer["refused"] or {name: _field(answer, name) for name in names}


def _mistaken(idea: str, names: Sequence[str], any_key: bool, call: Call) -> Any:
    """What the idea gives, behind a tiling_key that refuses what has no binary or behind one that does not."""
    return _picked(rules.right(call, idea, any_key=any_key), names)


@check("s4-plan.route", points=2, concept="templates", needs=(REFUSES,))
def plan_route(ctx: Context) -> None:
    """Every way through the table of routes, on both sides of each limit."""
    _require_fields(ctx, cases.routes, rules.ROUTE_IDEAS, ("template", "is_bn2_multiblk", "tnd", "mask_mode"))


@check("s4-plan.write", points=1, concept="tiling-key", needs=(REFUSES, "s4-plan.route"))
def plan_write(ctx: Context) -> None:
    """All fields, and the key that tiling_key makes of them."""
    for call, got in _require_fields(ctx, cases.written, rules.WRITE_IDEAS, tuple(rules.key_rules.TABLE)):
        want = rules.right(call)
        if not same(got["key"], want["key"]):
            ctx.fail(
                say(
                    "字段都对，但 key 应是 {want}，得到 {got}：key 是 tiling_key(fields) 的结果，先看 s4-key。",
                    "The fields are right, but key must be {want}, got {got}: it is what tiling_key(fields) gives; "
                    "look at s4-key first.",
                    want=want["key"],
                    got=returned(got["key"]),
                ),
                misconception="plan-key",
                evidence={"case": _described(call), "expected": want["key"], "got": returned(got["key"])},
            )
