"""Checks of s4-diagnose: eight causes drawn from the model, rows that mislead, and rows with little in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader.subject import Raised
from grader.vocabulary import Context, check, say

from . import profile_kinds as kinds
from .diagnose_mistakes import IDEAS
from .plain_values import idea_behind, require_dict, same, shown
from .tables import Row

DIAGNOSE = "diagnose"


def _ask(ctx: Context, row: Row, stumbles: str | None = None) -> Mapping[str, Any]:
    try:
        value = ctx.subject.call(DIAGNOSE, dict(row)).value
    except Raised as error:
        if error.kind == "TypeError":  # None in a comparison or a product
            error.misconception = error.misconception or stumbles
        raise
    return require_dict(ctx, value, ("bottleneck", "evidence"))


def _require(ctx: Context, rows: Sequence[Row], stumbles: str | None = None) -> None:
    """The words first, since a wrong idea shows in all of them; then what each rests on."""
    seen = [(row, _ask(ctx, row, stumbles)) for row in rows]
    words = [(row, value["bottleneck"]) for row, value in seen]
    for row, got in words:
        want = kinds.answer(row)
        if got != want:
            ctx.fail(
                say(
                    "瓶颈应为 {want}，得到 {got}。{row}",
                    "The bottleneck is {want}, it said {got}. {row}",
                    want=want,
                    got=shown(got),
                    row=_described(row),
                ),
                misconception=idea_behind(words, kinds.answer, IDEAS),
                evidence={"expected": want, "got": shown(got), "case": _described(row)},
            )
    for row, value in seen:
        _require_evidence(ctx, row, value["evidence"])


def _require_evidence(ctx: Context, row: Row, evidence: Any) -> None:
    if not isinstance(evidence, Mapping):
        ctx.fail(
            say("evidence 应是字典，得到 {got}。", "evidence must be a dict, it is {got}.", got=shown(evidence)),
            misconception="wrong-return",
        )
    foreign = [key for key in evidence if key not in row]
    if foreign:
        ctx.fail(
            say(
                "evidence 里的 {key} 不是这一行的列。",
                "{key} in the evidence is no column of the row.",
                key=shown(foreign[0]),
            ),
            misconception="diagnose-evidence",
        )
    for key, got in evidence.items():
        if not same(got, row[key]):
            ctx.fail(
                say(
                    "证据 {key} 写成了 {got}，这一行里是 {want}。",
                    "The evidence says {key} = {got}, the row has {want}.",
                    key=key,
                    got=shown(got),
                    want=shown(row[key]),
                ),
                misconception="diagnose-evidence",
                evidence={"expected": shown(row[key]), "got": shown(got)},
            )
    lacking = kinds.lacking(row, evidence)
    if lacking:
        ctx.fail(
            say(
                "结论 {word} 缺少证据：还要有 {columns}。",
                "{word} is not proved: the evidence also needs {columns}.",
                word=kinds.answer(row),
                columns=", ".join(sorted(lacking)),
            ),
            misconception="diagnose-evidence",
            evidence={"expected": sorted(lacking), "got": sorted(evidence)},
        )


def _described(row: Row) -> str:
    columns = ("duration_us", "aicore_us", "aiv_us", "cube_utilization", *kinds.PIPES)
    return ", ".join(f"{key}={row[key]:g}" for key in columns if row[key] is not None)


def _draw(ctx: Context, causes: Sequence[str], count: int = 2) -> list[Row]:
    """``count`` kernels of each cause, in an order that gives nothing away."""
    rows = [kinds.draw(ctx.rng(f"{cause} {n}"), cause).row for cause in causes for n in range(count)]
    return [rows[i] for i in ctx.rng("order").permutation(len(rows))]


@check("s4-diagnose.pipes", points=4, concept="bottleneck")
def diagnose_pipes(ctx: Context) -> None:
    """One pipe is full: Cube, Vector, MTE2 (small tiles), Fixpipe (everything through global memory)."""
    _require(ctx, _draw(ctx, ("cube", "vector-code", "small-tiles", "through-gm"), 3))


@check("s4-diagnose.waiting", points=2, concept="bottleneck", needs=("s4-diagnose.pipes",))
def diagnose_waiting(ctx: Context) -> None:
    """No pipe is full although the cores work all the time: single buffers, as after an overflow cured badly."""
    _require(ctx, _draw(ctx, ("single-buffers", "one-ahead", "cube")))


@check("s4-diagnose.not-a-pipe", points=3, concept="bottleneck", needs=("s4-diagnose.pipes",))
def diagnose_not_a_pipe(ctx: Context) -> None:
    """Most of the time is not the cores', or most of the cores have nothing to do, however full their pipes are."""
    rng = ctx.rng("early")
    early = [kinds.vector_longer(row, rng) for row in _draw(ctx, ("vector-code",), 3)]
    _require(ctx, _draw(ctx, ("few-cores", "few-cores-waiting", "tiny", "vector-code")) + early)


@check("s4-diagnose.misleading", points=2, concept="occupancy", needs=("s4-diagnose.pipes",))
def diagnose_misleading(ctx: Context) -> None:
    """Where the vendor's tool says "mac" (it is MTE2) or nothing (it is Fixpipe), and cube_utilization says 95 %."""
    rows = [row for row in _draw(ctx, ("small-tiles", "no-wire"), 4) if kinds.misleading(row)]
    assert rows  # both causes draw such rows
    _require(ctx, rows)


@check("s4-diagnose.missing", points=1, concept="profile-files", needs=("s4-diagnose.pipes",))
def diagnose_missing(ctx: Context) -> None:
    """Kernels on one kind of core have only half of the columns; at level 0 there are none."""
    rng = ctx.rng("others")
    rows = [kinds.other_kernel(rng, kind) for kind in ("cube", "vector", "aiv_mte2", "mte3", "mte1")]
    _require(ctx, rows, "diagnose-none")
    _require(ctx, [kinds.level0(row) for row in _draw(ctx, ("cube", "tiny"), 1)], "diagnose-none")
