"""Checks of s2-update and s2-merge: the state of the online softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from grader.checking.cases import normal
from grader.checking.compare import describe, distance, evidence_of, require_tensors, right
from grader.checking.examine import Examination, all_right, only, unchanged
from grader.checking.wrong_attention import State
from grader.vocabulary import Context, check, say

from .state_mistakes import merge_suspects, update_suspects
from .states import NAMES, Merge, Update, draw_merge, draw_state, draw_update, expectations, fresh, join

# s2-update -------------------------------------------------------------------------------------------------------


def _update(ctx: Context, case: Update) -> Any:
    return ctx.subject.call("online_softmax_update", case.state, case.scores, case.values).value


def _shapes(case: Update) -> dict[str, dict[tuple[int, ...], str]]:
    """row_max or row_sum without its last dimension, or spread over the rows by broadcasting."""
    rows = tuple(case.scores.shape[:-1])
    lost = {rows: "keepdim-missing", (*rows, rows[-1]): "keepdim-missing"}
    return {"row_max": lost, "row_sum": lost}


def _updated(make: Any, **more: Any) -> Examination:
    more.setdefault("shapes", _shapes)
    return Examination(call=_update, make=make, expect=lambda case: case.expected, suspects=update_suspects, **more)


@check("s2-update.values", points=3, concept="online-rescaling")
def update_values(ctx: Context) -> None:
    """One tile more, when the maximum grows in some rows and not in others."""
    _updated(
        draw_update,
        catch=lambda: only(
            update_suspects(), "acc-not-rescaled", "sum-not-rescaled", "rescale-inverted", "tile-max-in-p"
        ),
    ).run(ctx)


@check("s2-update.first-tile", points=2, concept="online-start", needs=("s2-update.values",))
def update_first_tile(ctx: Context) -> None:
    """From (-inf, 0, 0)."""

    def make(rng: np.random.Generator, n: int) -> Update:
        state = fresh((2, 5 + n), 3)
        return Update(state, normal(rng, 2, 5 + n, 4), normal(rng, 2, 4, 3), say("第一块", "the first tile"))

    _isolated(make, "first-tile").run(ctx)


def _isolated(make: Any, otherwise: str) -> Examination:
    """What goes wrong here goes wrong only here: an ordinary update on the same shapes is right."""

    def control(ctx: Context, case: Update) -> bool:
        rng = ctx.rng("control")
        state = draw_state(rng, tuple(case.state[0].shape[:-1]), case.values.shape[-1])
        ordinary = Update(state, normal(rng, *case.scores.shape), case.values, case.what)
        return all_right(_update(ctx, ordinary), ordinary.expected)

    return _updated(make, otherwise=otherwise, control=control, known=(draw_update,))


@check("s2-update.masked-tile", points=2, concept="masked-tile", needs=("s2-update.values", "s2-update.first-tile"))
def update_masked_tile(ctx: Context) -> None:
    """A tile that hides every key from some rows, before and after these rows have seen one."""

    def empty(rng: np.random.Generator, n: int) -> Update:
        scores = normal(rng, 2, 6, 4 + n)
        scores[:, ::2] = -math.inf
        return Update(
            fresh((2, 6), 3),
            scores,
            normal(rng, 2, 4 + n, 3),
            say("首块把一些行全遮住", "a first tile hides some rows"),
        )

    def later(rng: np.random.Generator, n: int) -> Update:
        scores = normal(rng, 2, 6, 4 + n)
        scores[:, 1::2] = -math.inf
        return Update(
            draw_state(rng, (2, 6), 3),
            scores,
            normal(rng, 2, 4 + n, 3),
            say("中间一块把一些行全遮住", "a later tile hides some rows"),
        )

    _isolated(later, "masked-tile").run(ctx)
    _isolated(empty, "masked-tile").run(ctx)


@check(
    "s2-update.several-tiles",
    points=2.5,
    concept="online-rescaling",
    needs=("s2-update.values", "s2-update.first-tile"),
)
def update_several_tiles(ctx: Context) -> None:
    """Tile after tile over all keys: acc / row_sum is softmax(scores) @ values. Levels rise and fall."""
    rng = ctx.rng()
    scores, values = normal(rng, 2, 7, 23, spread=3.0), normal(rng, 2, 23, 4)
    scores += torch.linspace(-20, 20, 23) * torch.tensor([1.0, -1.0])[:, None, None]
    state: State = fresh((2, 7), 4)
    for start in range(0, 23, 6):
        part = slice(start, start + 6)
        state = require_tensors(
            ctx, ctx.subject.call("online_softmax_update", state, scores[..., part], values[:, part]).value, NAMES
        )  # type: ignore[assignment]
    got = state[2].double() / state[1].double()
    truth = scores.double().softmax(-1) @ values.double()
    if not distance(got, truth) <= 2e-5:
        ctx.fail(
            say(
                "逐块更新后 acc / row_sum 与 softmax(scores) @ values 最多差 {error:.2g}。",
                "After all tiles acc / row_sum differs from softmax(scores) @ values by up to {error:.2g}.",
                error=distance(got, truth),
            ),
            evidence={"max_error": str(distance(got, truth)), "tolerance": 2e-5},
        )


@check("s2-update.inputs", points=0.5, concept="inputs", needs=("s2-update.values",))
def update_inputs(ctx: Context) -> None:
    """The caller's state, scores and values stay as they were."""
    case = draw_update(ctx.rng(), 0)
    outcome = ctx.subject.call("online_softmax_update", case.state, case.scores, case.values)
    unchanged(ctx, outcome.changed, ("state", "scores", "values"))


# s2-merge --------------------------------------------------------------------------------------------------------


def _merge(ctx: Context, case: Merge) -> Any:
    return ctx.subject.call("merge_states", case.a, case.b).value


def _merged(make: Any, **more: Any) -> Examination:
    return Examination(call=_merge, make=make, expect=lambda case: case.expected, suspects=merge_suspects, **more)


def _ordinary(ctx: Context, case: Merge) -> bool:
    """Two states with keys, on the shapes of ``case``, merge right."""
    shape, dim = tuple(case.a[0].shape[:-1]), case.a[2].shape[-1]
    rng = ctx.rng("control")
    ordinary = Merge(draw_state(rng, shape, dim), draw_state(rng, shape, dim), case.what)
    return all_right(_merge(ctx, ordinary), ordinary.expected)


@check("s2-merge.values", points=2, concept="merge")
def merge_values(ctx: Context) -> None:
    _merged(
        draw_merge,
        catch=lambda: only(
            merge_suspects(), "acc-not-rescaled", "sum-not-rescaled", "rescale-inverted", "merge-one-side"
        ),
    ).run(ctx)


@check("s2-merge.neutral", points=1, concept="masked-tile", needs=("s2-merge.values",))
def merge_neutral(ctx: Context) -> None:
    """(-inf, 0, 0) on either side changes nothing."""
    for left in (True, False):

        def make(rng: np.random.Generator, n: int, left: bool = left) -> Merge:
            some, none = draw_state(rng, (2, 4 + n), 3), fresh((2, 4 + n), 3)
            return (
                Merge(none, some, say("左边为空", "left side empty"))
                if left
                else Merge(some, none, say("右边为空", "right side empty"))
            )

        _merged(make, otherwise="merge-empty", control=_ordinary, known=(draw_merge,)).run(ctx)


@check("s2-merge.both-empty", points=1, concept="masked-tile", needs=("s2-merge.values",))
def merge_both_empty(ctx: Context) -> None:
    _merged(
        lambda rng, n: Merge(fresh((2, 4 + n), 3), fresh((2, 4 + n), 3), say("两边都为空", "both sides empty")),
        otherwise="merge-empty",
        control=_ordinary,
        known=(draw_merge,),
    ).run(ctx)


@check("s2-merge.associative", points=1, concept="merge", needs=("s2-merge.values",))
def merge_associative(ctx: Context) -> None:
    """(a + b) + c = a + (b + c), with maxima far apart."""
    rng = ctx.rng()
    a, b, c = (draw_state(rng, (3, 5), 4, level) for level in (-30.0, 0.0, 25.0))

    def merged(x: State, y: State) -> State:
        return require_tensors(ctx, ctx.subject.call("merge_states", x, y).value, NAMES)  # type: ignore[return-value]

    double = [tuple(part.double() for part in state) for state in (a, b, c)]
    expected = expectations(join(join(double[0], double[1]), double[2]), 60.0)  # type: ignore[arg-type]
    for state in (merged(merged(a, b), c), merged(a, merged(b, c)), merged(merged(c, a), b)):
        for name, part in zip(NAMES, state, strict=True):
            if not right(part, expected[name]):
                ctx.fail(
                    say("合并次序不同，结果就不同：", "The result depends on the order of merging: ").plus(
                        describe(part, expected[name]), ""
                    ),
                    misconception="merge-not-associative",
                    evidence=evidence_of(part, expected[name]),
                )
