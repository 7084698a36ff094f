"""Checks of s4-key: bit fields written and read, and the combinations for which there is no binary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.checking.compare import returned
from grader.subject import Raised
from grader.vocabulary import Context, check, say

from . import key_rules as rules
from .plain_values import idea_behind, same, shown

KEY, ENCODE = "tiling_key", "s4-key.encode"
TRIED = 28  # combinations for each check that draws
STRANGERS = (  # values that are in no table
    {"template": "BN2S2"}, {"mask_mode": 1}, {"mask_mode": 2}, {"d_align": 256}, {"dv_align": 64},
)  # fmt: skip


def _answer(ctx: Context, value: rules.Fields | int) -> Any:
    """What comes back; None where it raised ValueError, and nowhere else."""
    try:
        value = ctx.subject.call(KEY, dict(value) if isinstance(value, dict) else value).value
        return "None" if value is None else value
    except Raised as error:
        if error.kind == "ValueError":
            return None
        raise


def _drawn(ctx: Context, among: Sequence[Any], count: int) -> list[Any]:
    return [among[i] for i in ctx.rng().permutation(len(among))[:count]]


def _valid() -> list[rules.Fields]:
    return [fields for fields in rules.combinations() if not rules.broken(fields)]


@check(ENCODE, points=2, concept="tiling-key")
def key_encode(ctx: Context) -> None:
    """Fields to a key: half of the valid combinations, each value of each field among them."""
    cases = _drawn(ctx, _valid(), TRIED)
    cases += [next(f for f in _valid() if f["template"] == "BN2" and f["bn2_need_zero"] and f["mask_mode"] == 4)]
    seen = [(case, _answer(ctx, case)) for case in cases]
    for case, got in seen:
        want = rules.right(case)
        if type(got) is int and got == want:
            continue
        if got is None:
            ctx.fail(
                say(
                    "{case} 有对应的二进制，却抛出了 ValueError。",
                    "There is a binary for {case}, but it raised ValueError.",
                    case=shown(case),
                ),
                misconception="key-refuses-valid",
                evidence={"case": shown(case), "expected": want, "got": "ValueError"},
            )
        if type(got) is not int:
            ctx.fail(
                say("由字段应得到 int，得到 {got}。", "Fields must give an int, got {got}.", got=returned(got)),
                misconception="wrong-return",
                evidence={"got": returned(got)},
            )
        ctx.fail(
            say(
                "{case} 的键应是 {want}（{bits}），得到 {got}（{found}）。",
                "The key of {case} is {want} ({bits}), not {got} ({found}).",
                case=shown(case),
                want=want,
                bits=f"{want:#013b}",
                got=got,
                found=f"{got:#013b}",
            ),
            misconception=idea_behind(seen, rules.right, rules.ENCODE_IDEAS),
            evidence={"case": shown(case), "expected": want, "got": got},
        )


@check("s4-key.decode", points=1, concept="tiling-key", needs=(ENCODE,))
def key_decode(ctx: Context) -> None:
    """A key to its fields, and codes that mean nothing."""
    keys: list[int] = [rules.encode(fields) for fields in _drawn(ctx, _valid(), TRIED)]
    codes = [0b10, 0b11, 0b11 << 3, 0b11 << 6, 1 << 11, *(key | 1 << 11 for key in keys[:2]), -1]
    codes += [key - (1 << 11) for key in keys[:3]]  # negative, with the low bits of a key that is valid
    seen = [(key, _answer(ctx, key)) for key in keys + codes]
    for key, got in seen:
        want = rules.right(key)
        if same(got, want):
            continue
        ctx.fail(
            say(
                "键 {key}（{bits}）应{want}，得到 {got}。",
                "Key {key} ({bits}) must {want}, got {got}.",
                key=key,
                bits=f"{key & 0xFFFF:#013b}",
                want=say("抛出 ValueError", "raise ValueError")
                if want is None
                else say("给出 {fields}", "give {fields}", fields=shown(want)),
                got=_spelt(got),
            ),
            misconception=idea_behind(seen, rules.right, rules.DECODE_IDEAS) or ("key-codes" if want is None else None),
            evidence={"case": key, "expected": _spelt(want), "got": _spelt(got)},
        )


def _spelt(answer: Any) -> str:
    return "ValueError" if answer is None else shown(answer)


@check("s4-key.refuses", points=2, concept="tiling-key", needs=(ENCODE,))
def key_refuses(ctx: Context) -> None:
    """Combinations that break exactly one rule, in both directions; values that no table has."""
    seen: list[tuple[rules.Fields, str, bool]] = []
    alone = [(fields, rules.broken(fields)) for fields in rules.combinations()]
    for row, (name, _) in enumerate(rules.EXCLUDED):
        only = [fields for fields, broken in alone if broken == [row]]
        for fields in [only[i] for i in ctx.rng(row).permutation(len(only))[:4]]:
            seen.append((fields, name, _answer(ctx, fields) is None))
            seen.append((fields, name, _answer(ctx, rules.encode(fields)) is None))
    missed = [(fields, name) for fields, name, refused in seen if not refused]
    if missed:
        names = {name for _, name in missed}
        fields = missed[0][0]
        ctx.fail(
            say(
                "没有这种组合的二进制，却没有抛出 ValueError：{case}（键 {key}）。",
                "There is no binary for this combination, but no ValueError: {case} (key {key}).",
                case=shown(fields),
                key=rules.encode(fields),
            ),
            misconception=names.pop() if len(names) == 1 else "key-no-rules",
            evidence={"case": shown(fields), "expected": "ValueError", "got": returned(_answer(ctx, fields))},
        )
    for change in STRANGERS:
        fields = dict(_drawn(ctx, _valid(), 1)[0]) | change
        got = _answer(ctx, fields)
        if got is not None:
            ctx.fail(
                say(
                    "{case}：表里没有这个值，应抛出 ValueError。",
                    "{case}: the table has no such value, so it must raise ValueError.",
                    case=shown(change),
                ),
                misconception="key-codes",
                evidence={"case": shown(fields), "expected": "ValueError", "got": returned(got)},
            )
