"""Checks of s3-environment: chips, data types and versions, each on names and numbers that trip up a shortcut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grader.checking.compare import returned
from grader.subject import Raised, SubjectError
from grader.vocabulary import Context, check, say
from kernels.machine.chips import CHIPS, kind_of, names_of

PLAN = "plan_environment"
FIELDS = ("operator", "bfloat16", "versions_match")

A1, A2, A3, A5 = (names_of(family) for family in ("910", "910B", "910_93", "950"))
OPERATOR = {"950": "cann_ops_transformer", "910B": "torch_npu", None: "cpu"}  # by kernels.machine.kind_of
UNKNOWN = ("Ascend9999", "Tesla V100", "", None)


def plan(
    ctx: Context, soc: str | None, torch_version: str, torch_npu_version: str | None, stumbles: str | None = None
) -> Mapping[str, Any]:
    """``stumbles``: the idea behind an error, when ordinary arguments give none."""
    try:
        value = ctx.subject.call(PLAN, soc, torch_version, torch_npu_version).value
    except Raised as error:
        if stumbles and not _always_raises(ctx):
            error.misconception = stumbles
        raise
    if not isinstance(value, Mapping) or not set(FIELDS) <= set(value):
        ctx.fail(
            say(
                "应返回含有 operator、bfloat16、versions_match 的字典，得到 {got}。",
                "It must return a dict with operator, bfloat16 and versions_match, it returned {got}.",
                got=returned(value),
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    return value


def _always_raises(ctx: Context) -> bool:
    try:
        ctx.subject.call(PLAN, A5[0], "2.13.0", "2.13.0")
    except SubjectError:
        return True
    return False


def _shuffled(ctx: Context, names: Iterable[str | None]) -> list[str | None]:
    listed = list(names)
    return [listed[i] for i in ctx.rng().permutation(len(listed))]


def _require(
    ctx: Context, value: Mapping[str, Any], field: str, want: Any, case: str, misconception: str | None
) -> None:
    got = value[field]
    if type(got) is type(want) and got == want:
        return
    ctx.fail(
        say(
            "{case}：{field} 应为 {want!r}，得到 {got!r}。",
            "{case}: {field} must be {want!r}, it is {got!r}.",
            case=case,
            field=field,
            want=want,
            got=got if isinstance(got, (bool, str, int, float, type(None))) else returned(got),
        ),
        misconception=misconception if isinstance(got, type(want)) else "wrong-return",
        evidence={"expected": want, "got": str(got), "case": case},
    )


def _wrong_operator(soc: str | None, got: Any) -> str:
    """Which confusion takes this chip for one that has the operator ``got``."""
    if soc == "Ascend910B" or (soc in A1 and got == "torch_npu"):
        return "soc-first-generation"
    if soc in UNKNOWN:
        return "soc-unknown"
    return "soc-family"


@check("s3-environment.operator", points=3, concept="environment")
def environment_operator(ctx: Context) -> None:
    """Every chip of the table, names that only look like one, and no chip at all."""
    operator = {
        **{soc: OPERATOR[kind_of(soc)] for soc in CHIPS},
        **dict.fromkeys(UNKNOWN, "cpu"),
    }
    for soc in _shuffled(ctx, operator):
        value = plan(ctx, soc, "2.13.0", "2.13.0", "soc-unknown" if soc in UNKNOWN else None)
        misconception = _wrong_operator(soc, value["operator"])
        _require(ctx, value, "operator", operator[soc], f"soc={soc!r}", misconception)


@check("s3-environment.bfloat16", points=1.5, concept="environment", needs=("s3-environment.operator",))
def environment_bfloat16(ctx: Context) -> None:
    """Ids from 220 on, whichever operator the chip has."""
    for soc in _shuffled(ctx, (*CHIPS, *UNKNOWN)):
        able = soc in CHIPS and CHIPS[soc].bfloat16
        value = plan(ctx, soc, "2.13.0", "2.13.0")
        _require(ctx, value, "bfloat16", able, f"soc={soc!r}", "bfloat16-support")


PAIRS = (
    ("2.13.0", "2.13.0", True, "versions-suffix"),
    ("2.13.0+cpu", "2.13.0", True, "versions-suffix"),
    ("2.1.0", "2.1.0.post12", True, "versions-suffix"),
    ("2.5.1+cpu", "2.5.1.post1", True, "versions-suffix"),
    ("2.13.0", "2.14.0", False, "versions-pair"),
    ("2.1.0", "2.1.1", False, "versions-pair"),
    ("2.1.0", "2.10.0", False, "versions-prefix"),
    ("2.13.0", "2.1.3", False, "versions-prefix"),
    ("2.1.0", "2.1.0.post1", True, "versions-suffix"),
    ("2.11.0", "2.1.0", False, "versions-prefix"),
    ("2.13.0", None, False, "versions-none"),
)


@check("s3-environment.versions", points=1.5, concept="environment", needs=("s3-environment.operator",))
def environment_versions(ctx: Context) -> None:
    """torch and torch_npu go in pairs: suffixes do not matter, the last number does, 2.1 is not 2.10."""
    wrong = []
    for index in ctx.rng().permutation(len(PAIRS)):
        pair = PAIRS[int(index)]
        chip = (A5[0], A2[3], A3[0])[int(index) % 3]
        value = plan(ctx, chip, *pair[:2], "versions-none" if pair[1] is None else None)
        if value["versions_match"] is not pair[2]:
            wrong.append((value, pair))
    if wrong:
        ideas = {idea for _, (*_, idea) in wrong}
        if {pair for pair in PAIRS if pair[3] == "versions-prefix"} <= {pair for _, pair in wrong}:
            ideas -= {"versions-pair"}  # a prefix alone mistakes other pairs too
        value, (torch_version, torch_npu_version, match, _) = wrong[0]
        case = f"torch {torch_version}, torch_npu {torch_npu_version}"
        _require(ctx, value, "versions_match", match, case, ideas.pop() if len(ideas) == 1 else None)
