"""Wrong ideas about updating and merging the state of the online softmax."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from grader.checking.diagnose import Suspect
from grader.checking.wrong_attention import State, shifted, update

from .mistakes import inverse, one, overwritten, rescaling, tile_max
from .states import NAMES, join

Join = Callable[[State, State], State]


def _named(state: State) -> dict[str, Tensor]:
    return dict(zip(NAMES, state, strict=True))


def _updates(id: str, step: Callable[[State, Tensor, Tensor], State]) -> Suspect:
    return Suspect(id, lambda case: _named(step(case.state, case.scores, case.values)), loose=2)


def _reordered(order: tuple[int, int, int]) -> Callable[[State, Tensor, Tensor], State]:
    def step(state: State, scores: Tensor, v: Tensor) -> State:
        new = update(state, scores, v)
        return new[order[0]], new[order[1]], new[order[2]]

    return step


def _normalised(state: State, scores: Tensor, v: Tensor) -> State:
    new, row_sum, acc = update(state, scores, v)
    return new, row_sum, acc / row_sum


def _normalised_tile(state: State, scores: Tensor, v: Tensor) -> State:
    new, row_sum, _ = update(state, scores, v)
    return new, row_sum, state[2] * shifted(state[0], new) + scores.softmax(-1) @ v


def _kept_normalised(state: State, scores: Tensor, v: Tensor) -> State:
    """acc taken and returned as the normalised output."""
    new, row_sum, acc = update((state[0], state[1], state[2] * state[1]), scores, v)
    return new, row_sum, acc / row_sum


def _old_max_kept(state: State, scores: Tensor, v: Tensor) -> State:
    _, row_sum, acc = update(state, scores, v)
    return state[0], row_sum, acc


def _tile_max_returned(state: State, scores: Tensor, v: Tensor) -> State:
    _, row_sum, acc = update(state, scores, v)
    return scores.amax(-1, keepdim=True), row_sum, acc


def _relative_to(
    reference: Callable[[Tensor, Tensor], Tensor], returned: Callable[[Tensor, Tensor], Tensor]
) -> Callable[..., State]:
    """p relative to ``reference(old, tile maximum)``, the old part rescaled to it."""

    def step(state: State, scores: Tensor, v: Tensor) -> State:
        local = scores.amax(-1, keepdim=True)
        at = reference(state[0], local)
        p, alpha = shifted(scores, at), shifted(state[0], at)
        return returned(state[0], local), state[1] * alpha + p.sum(-1, keepdim=True), state[2] * alpha + p @ v

    return step


def _no_max(state: State, scores: Tensor, v: Tensor) -> State:
    p = scores.exp()
    return torch.maximum(state[0], scores.amax(-1, keepdim=True)), state[1] + p.sum(-1, keepdim=True), state[2] + p @ v


def _mean(state: State, scores: Tensor, v: Tensor) -> State:
    new = torch.maximum(state[0], scores.amax(-1, keepdim=True))
    p, alpha = shifted(scores, new), shifted(state[0], new)
    return new, state[1] * alpha + p.mean(-1, keepdim=True), state[2] * alpha + p @ v


@cache
def update_suspects() -> list[Suspect]:
    table: list[tuple[str, Callable[..., State]]] = [
        ("acc-not-rescaled", rescaling(shifted, one)),
        ("sum-not-rescaled", rescaling(one, shifted)),
        ("nothing-rescaled", rescaling(one, one)),
        ("rescale-inverted", rescaling(inverse, inverse)),
        ("rescale-inverted", rescaling(shifted, inverse)),
        ("rescale-inverted", rescaling(inverse, shifted)),
        ("tile-max-in-p", tile_max),
        ("last-tile-only", overwritten(total=True, acc=True)),
        ("last-tile-only", overwritten(total=False, acc=True)),
        ("sum-overwritten", overwritten(total=True, acc=False)),
        ("state-normalised", _normalised),
        ("state-normalised", _normalised_tile),
        ("state-normalised", _kept_normalised),
        ("state-order", _reordered((1, 0, 2))),
        ("old-max-kept", _old_max_kept),
        ("old-max-kept", _relative_to(lambda old, tile: old, lambda old, tile: old)),
        ("old-max-kept", _relative_to(lambda old, tile: old, torch.maximum)),
        ("running-max-forgotten", _tile_max_returned),
        ("running-max-forgotten", _relative_to(lambda old, tile: tile, lambda old, tile: tile)),
        ("no-max-subtraction", _no_max),
        ("no-max-subtraction", lambda state, s, v: (state[0], *_no_max(state, s, v)[1:])),
        ("sum-is-mean", _mean),
        (
            "max-over-everything",
            _relative_to(
                lambda old, tile: torch.maximum(old, tile).amax().expand_as(old),
                lambda old, tile: torch.maximum(old, tile).amax().expand_as(old),
            ),
        ),
        (
            "max-over-everything",
            _relative_to(
                lambda old, tile: torch.maximum(old, tile.amax(-2, keepdim=True)),
                lambda old, tile: torch.maximum(old, tile.amax(-2, keepdim=True)),
            ),
        ),
        (
            "nothing-rescaled",
            lambda state, s, v: (
                torch.maximum(state[0], s.amax(-1, keepdim=True)),
                state[1] + shifted(s, s.amax(-1, keepdim=True)).sum(-1, keepdim=True),
                state[2] + shifted(s, s.amax(-1, keepdim=True)) @ v,
            ),
        ),
    ]
    return [_updates(id, step) for id, step in table]


def _merges(id: str, join: Join) -> Suspect:
    return Suspect(id, lambda case: _named(join(case.a, case.b)), loose=2)


def _weighted(
    wa: Callable[..., Tensor], wb: Callable[..., Tensor], only: str = "both", top: Callable[..., Tensor] = torch.maximum
) -> Join:
    """Weights ``w(own maximum, new maximum)`` on row_sum, on acc, or on both; the other part is simply added."""

    def joined(a: State, b: State) -> State:
        row_max = top(a[0], b[0])
        fa, fb = wa(a[0], row_max), wb(b[0], row_max)
        row_sum = a[1] * fa + b[1] * fb if only != "acc" else a[1] + b[1]
        acc = a[2] * fa + b[2] * fb if only != "sum" else a[2] + b[2]
        return row_max, row_sum, acc

    return joined


def _towards(a: State, b: State) -> tuple[Tensor, Tensor]:
    """b rescaled to a's maximum, whichever is larger."""
    weight = (b[0] - a[0]).exp()
    return a[1] + weight * b[1], a[2] + weight * b[2]


@cache
def merge_suspects() -> list[Suspect]:
    table: list[tuple[str, Join]] = [
        ("nothing-rescaled", _weighted(one, one)),
        ("acc-not-rescaled", _weighted(shifted, shifted, "sum")),
        ("sum-not-rescaled", _weighted(shifted, shifted, "acc")),
        ("rescale-inverted", _weighted(inverse, inverse)),
        ("merge-one-side", _weighted(shifted, one)),
        ("merge-one-side", _weighted(one, shifted)),
        ("merge-takes-one-max", _weighted(shifted, shifted, top=lambda x, y: x)),
        ("merge-takes-one-max", _weighted(shifted, shifted, top=lambda x, y: y)),
        ("merge-takes-one-max", lambda a, b: (torch.maximum(a[0], b[0]), *_towards(a, b))),
        ("merge-takes-one-max", lambda a, b: (torch.maximum(a[0], b[0]), *_towards(b, a))),
        ("merge-takes-one-max", lambda a, b: (a[0], *_towards(a, b))),
        (
            "merge-weights-swapped",
            lambda a, b: (
                join(a, b)[0],
                a[1] * shifted(b[0], join(a, b)[0]) + b[1] * shifted(a[0], join(a, b)[0]),
                a[2] * shifted(b[0], join(a, b)[0]) + b[2] * shifted(a[0], join(a, b)[0]),
            ),
        ),
        ("merge-keeps-one", lambda a, b: a),
        ("merge-keeps-one", lambda a, b: b),
        ("state-normalised", lambda a, b: (join(a, b)[0], join(a, b)[1], join(a, b)[2] / join(a, b)[1])),
        (
            "state-normalised",
            lambda a, b: (
                join(a, b)[0],
                join(a, b)[1],
                join((a[0], a[1], a[2] * a[1]), (b[0], b[1], b[2] * b[1]))[2] / join(a, b)[1],
            ),
        ),
        ("merge-average", lambda a, b: tuple(part / 2 for part in join(a, b))),
        ("merge-max-added", lambda a, b: (a[0] + b[0], *join(a, b)[1:])),
        ("state-order", lambda a, b: (join(a, b)[1], join(a, b)[0], join(a, b)[2])),
    ]  # type: ignore[list-item]
    return [_merges(id, joined) for id, joined in table]
