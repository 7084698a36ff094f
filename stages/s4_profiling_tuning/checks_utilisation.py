"""Checks of s4-utilisation: shares weighted by time, cores at work, the work of attention, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.subject import Raised
from grader.vocabulary import Context, check, say

from . import utilisation_mistakes as mistakes
from .plain_values import idea_behind, require_dict, same, shown
from .utilisation_mistakes import KEYS, PIPES, Run

Ideas = Sequence[tuple[str, Callable[[Run], Any]]]

FORWARD, BACKWARD, MATMUL, NORM, CAST = (
    "FlashAttentionScore", "FlashAttentionScoreGrad", "MatMulV3", "LayerNormV4", "Cast",
)  # fmt: skip
STEP = (FORWARD, FORWARD, MATMUL, NORM, BACKWARD, BACKWARD, CAST, MATMUL, mistakes.DECOY)


def _call(ctx: Context, run: Run) -> Mapping[str, Any]:
    value = ctx.subject.call("utilisation", list(run.kernels), dict(run.soc)).value
    return require_dict(ctx, value, KEYS)


def _require(ctx: Context, keys: Sequence[str], runs: Sequence[Run], ideas: Ideas) -> None:
    """``keys`` of the answer to every run. The ideas give all of them as a dict."""
    seen = []
    for run in runs:
        value = _call(ctx, run)
        seen.append((run, {key: value[key] for key in keys}))

    def want(run: Run) -> dict[str, Any]:
        right = mistakes.right(run)
        return {key: right[key] for key in keys}

    for run, got in seen:
        for key, value in want(run).items():
            if same(got[key], value):
                continue
            ctx.fail(
                say(
                    "{key} 应为 {want}，得到 {got}（{n} 个 kernel，{cores} 个核）。",
                    "{key} must be {want}, it is {got} ({n} kernels, {cores} cores).",
                    key=key,
                    want=shown(value),
                    got=shown(got[key]),
                    n=len(run.kernels),
                    cores=run.soc["cores"],
                ),
                misconception=idea_behind(seen, want, ideas),
                evidence={"expected": shown(value), "got": shown(got[key])},
            )


def _of(key: str, ideas: Sequence[tuple[str, Callable[[Run], Any]]]) -> Ideas:
    """Ideas about one value, as ideas about a dict with that key."""
    return [(id, lambda run, give=give: {key: give(run)}) for id, give in ideas]


def _draw(ctx: Context, types: Sequence[str], count: int, *, gaps: bool = False) -> list[Run]:
    """Cases in which every mistake shows: kernels of attention have a mask every other time."""
    return [
        mistakes.draw(ctx.rng(n), [types[i] for i in ctx.rng(f"order {n}").permutation(len(types))], gaps=gaps)
        for n in range(count)
    ]


@check("s4-utilisation.shares", points=3, concept="weighting")
def utilisation_shares(ctx: Context) -> None:
    """The pipes, of kernels of very different lengths; some run on one kind of core only."""
    _require(ctx, ("total_us",), _draw(ctx, STEP, 1), ())
    _require(ctx, PIPES, _draw(ctx, STEP, 3), mistakes.SHARES)


@check("s4-utilisation.occupancy", points=1.5, concept="occupancy", needs=("s4-utilisation.shares",))
def utilisation_occupancy(ctx: Context) -> None:
    """Cores that have work, whatever their Cubes do; a kernel may have more blocks than there are cores."""
    _require(ctx, ("occupancy",), _draw(ctx, STEP, 3), _of("occupancy", mistakes.OCCUPANCY))


@check("s4-utilisation.attention", points=2.5, concept="mfu", needs=("s4-utilisation.shares",))
def utilisation_attention(ctx: Context) -> None:
    """Work and time of the attention kernels: masks, S1 != S2, fewer kv heads, backward."""
    by_name = [("attention-by-part", mistakes.share_by_part_of_name)]
    _require(ctx, ("attention_share",), _draw(ctx, STEP, 2), _of("attention_share", by_name))
    _require(ctx, ("tflops",), _draw(ctx, STEP, 3), _of("tflops", mistakes.RATE))
    ideas = [
        ("mfu-percent", lambda run: 100 * (mistakes.right(run)["mfu"] or 0)),
        ("mfu-peak", lambda run: 2 * (mistakes.right(run)["mfu"] or 0)),
        ("mfu-peak", lambda run: (mistakes.right(run)["mfu"] or 0) * run.soc["cores"]),
    ]
    _require(ctx, ("mfu",), _draw(ctx, STEP, 2), _of("mfu", ideas))


@check("s4-utilisation.missing", points=1, concept="profile-files", needs=("s4-utilisation.shares",))
def utilisation_missing(ctx: Context) -> None:
    """Kernels without counters do not count; where none has them, and where there is no kernel, the answer is None."""
    _require(ctx, PIPES, _draw(ctx, STEP, 2, gaps=True), mistakes.SHARES)
    _require(ctx, ("occupancy",), _draw(ctx, STEP, 2, gaps=True), _of("occupancy", mistakes.OCCUPANCY))
    nothing = Run([], {"cores": 32, "mhz": 1650})
    level0 = mistakes.draw(ctx.rng("level 0"), (MATMUL, NORM, CAST))
    for kernel in level0.kernels:
        kernel |= {key: None for key in kernel if key not in ("name", "type", "core", "start_us", "duration_us")}
    for run in (level0, nothing):
        try:
            value = _call(ctx, run)
        except Raised as error:
            error.misconception = "share-nothing-to-divide"
            raise
        for key, want in mistakes.right(run).items():
            if not same(value[key], want):
                ctx.fail(
                    say(
                        "{n} 个没有计数器的 kernel：{key} 应为 {want}，得到 {got}。",
                        "{n} kernels without counters: {key} must be {want}, it is {got}.",
                        n=len(run.kernels),
                        key=key,
                        want=want,
                        got=shown(value[key]),
                    ),
                    misconception="read-zero-for-missing" if want is None and value[key] == 0 else None,
                    evidence={"expected": str(want), "got": shown(value[key])},
                )
