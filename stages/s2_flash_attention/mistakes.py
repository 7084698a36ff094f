"""Wrong ideas about the online softmax and about tiles, and the list of all ideas that forward may be told."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, EMPTY_ROWS, FACTORS, HEADS, SCALE, SOFTMAX
from grader.checking.cases import Attention
from grader.checking.diagnose import Suspect
from grader.checking.wrong_attention import (
    Scene,
    State,
    all_tiles,
    consecutive,
    divide,
    pairs,
    shifted,
    suspect,
    suspects,
    update,
)

from .mask_mistakes import WINDOW

Step = Callable[[State, Tensor, Tensor], State]


def rescaling(total: Callable[[Tensor, Tensor], Tensor], acc: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """The online update with its own factors, each ``f(old maximum, new maximum)``, for row_sum and acc."""

    def step(state: State, scores: Tensor, v: Tensor) -> State:
        old, row_sum, out = state
        new = torch.maximum(old, scores.amax(-1, keepdim=True))
        p = shifted(scores, new)
        return new, row_sum * total(old, new) + p.sum(-1, keepdim=True), out * acc(old, new) + p @ v

    return step


def one(old: Tensor, new: Tensor) -> Tensor:
    return torch.ones_like(new)


def inverse(old: Tensor, new: Tensor) -> Tensor:
    """exp(new - old), with nothing to rescale before the first tile."""
    return torch.where(old == -math.inf, 1.0, (new - old).exp())


def tile_max(state: State, scores: Tensor, v: Tensor) -> State:
    """The tile's own maximum in p, the running one everywhere else."""
    old, row_sum, out = state
    local = scores.amax(-1, keepdim=True)
    new = torch.maximum(old, local)
    p, alpha = shifted(scores, local), shifted(old, new)
    return new, row_sum * alpha + p.sum(-1, keepdim=True), out * alpha + p @ v


def tile_max_forgets(state: State, scores: Tensor, v: Tensor) -> State:
    """Every tile relative to its own maximum, nothing rescaled."""
    local = scores.amax(-1, keepdim=True)
    p = shifted(scores, local)
    return local, state[1] + p.sum(-1, keepdim=True), state[2] + p @ v


def own_softmax(state: State, scores: Tensor, v: Tensor) -> State:
    """Softmax of every tile on its own, the outputs added; row_sum counts the tiles."""
    top = torch.maximum(state[0], scores.amax(-1, keepdim=True))
    return top, state[1] + 1, state[2] + scores.softmax(-1).nan_to_num(0.0) @ v


def normalised_parts(state: State, scores: Tensor, v: Tensor) -> State:
    """p divided by the tile's own sum before the product with v, the state kept as it should be."""
    new, row_sum, _ = update(state, scores, v)
    return new, row_sum, state[2] * shifted(state[0], new) + scores.softmax(-1).nan_to_num(0.0) @ v


def divided_every_step(state: State, scores: Tensor, v: Tensor) -> State:
    """acc / row_sum after every tile, without multiplying back before the next."""
    new, row_sum, out = update(state, scores, v)
    return new, row_sum, out / row_sum


def rescaled_too_much(state: State, scores: Tensor, v: Tensor) -> State:
    """The factor is applied to the new tile as well."""
    old, row_sum, out = state
    new = torch.maximum(old, scores.amax(-1, keepdim=True))
    p, alpha = shifted(scores, new), shifted(old, new)
    return new, (row_sum + p.sum(-1, keepdim=True)) * alpha, (out + p @ v) * alpha


def repeated(x: Tensor, block: int) -> Tensor:
    """The first tile of x in place of every tile."""
    return x[..., torch.arange(x.shape[-2]) % block, :]


def overwritten(total: bool, acc: bool) -> Step:
    """Assigned where it should be added."""

    def step(state: State, scores: Tensor, v: Tensor) -> State:
        new, row_sum, out = update(state, scores, v)
        p = shifted(scores, new)
        return new, p.sum(-1, keepdim=True) if total else row_sum, p @ v if acc else out

    return step


def undivided(state: State, scene: Scene) -> tuple[Tensor, Tensor]:
    return state[2], (state[0] + state[1].log())[..., 0]


def over_count(state: State, scene: Scene) -> tuple[Tensor, Tensor]:
    return state[2] / state[1], state[0][..., 0]


def full_tiles(scene: Scene) -> list[slice]:
    """Only tiles that fit: the tail of the keys is lost."""
    return [keys for keys in all_tiles(scene) if keys.stop - keys.start == scene.case.block_kv] or all_tiles(scene)[:1]


def overlapping(scene: Scene) -> list[slice]:
    """The last tile starts early enough to be full, so that some keys count twice."""
    tiles, length = all_tiles(scene), scene.k.shape[2]
    return [*tiles[:-1], slice(max(length - scene.case.block_kv, 0), length)]


def zero_rows(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    """The tail of the queries keeps its initial 0."""
    full = out.shape[2] // scene.case.block_q * scene.case.block_q
    return out.masked_fill(torch.arange(out.shape[2])[:, None] >= full, 0.0), lse


def padded(masked: Tensor, scene: Scene) -> Tensor:
    """The last tile is filled up with keys and values of 0, which take weight: exp(0 - max)."""
    missing = -masked.shape[-1] % scene.case.block_kv
    filler = masked.new_zeros(*masked.shape[:-1], missing)
    return torch.cat([masked, filler], -1).softmax(-1)[..., : masked.shape[-1]]


def no_max(state: State, scores: Tensor, v: Tensor) -> State:
    p = scores.exp()
    return torch.zeros_like(state[0]), state[1] + p.sum(-1, keepdim=True), state[2] + p @ v


def subtracting(reference: Callable[[Tensor], Tensor]) -> Step:
    """Some other quantity of the tile's scores in place of their maximum."""

    def step(state: State, scores: Tensor, v: Tensor) -> State:
        new = torch.maximum(state[0], reference(scores))
        p, alpha = (scores - new).exp(), (state[0] - new).exp()
        return new, state[1] * alpha + p.sum(-1, keepdim=True), state[2] * alpha + p @ v

    return step


def max_from(value: float) -> Callable[[Scene], State]:
    def start(scene: Scene) -> State:
        rows = scene.scores[..., :1]
        return torch.full_like(rows, value), torch.zeros_like(rows), rows.new_zeros(*rows.shape[:-1], scene.v.shape[-1])

    return start


def whole_tile_max(state: State, scores: Tensor, v: Tensor) -> State:
    """One maximum for all rows of a tile (and all heads) instead of one per row."""
    new = torch.maximum(state[0], scores.amax().expand_as(state[0]))
    p, alpha = shifted(scores, new), shifted(state[0], new)
    return new, state[1] * alpha + p.sum(-1, keepdim=True), state[2] * alpha + p @ v


def row_block_max(state: State, scores: Tensor, v: Tensor) -> State:
    new = torch.maximum(state[0], scores.amax((-2, -1), keepdim=True).expand_as(state[0]))
    p, alpha = shifted(scores, new), shifted(state[0], new)
    return new, state[1] * alpha + p.sum(-1, keepdim=True), state[2] * alpha + p @ v


def first_max(state: State, scores: Tensor, v: Tensor) -> State:
    """The first tile's maximum is kept for good."""
    new = torch.where(state[0] == -math.inf, scores.amax(-1, keepdim=True), state[0])
    p = shifted(scores, new)
    return new, state[1] + p.sum(-1, keepdim=True), state[2] + p @ v


ONLINE = [
    suspect("acc-not-rescaled", step=rescaling(shifted, one)),
    suspect("sum-not-rescaled", step=rescaling(one, shifted)),
    suspect("nothing-rescaled", step=rescaling(one, one)),
    suspect("nothing-rescaled", step=tile_max_forgets),
    suspect("rescale-inverted", step=rescaling(inverse, inverse), loose=9),
    suspect("rescale-inverted", step=rescaling(shifted, inverse), loose=9),
    suspect("rescale-inverted", step=rescaling(inverse, shifted), loose=9),
    suspect("tile-max-in-p", step=tile_max),
    suspect("normalised-per-tile", step=own_softmax, finish=over_count),
    suspect("normalised-per-tile", step=own_softmax, finish=undivided),
    suspect("normalised-per-tile", step=divided_every_step, finish=undivided),
    suspect("normalised-per-tile", step=divided_every_step),
    suspect("normalised-per-tile", step=normalised_parts),
    suspect("normalised-per-tile", step=normalised_parts, finish=undivided),
    suspect("not-normalised", step=update, finish=undivided, loose=4),
    suspect("last-tile-only", step=overwritten(total=True, acc=True)),
    suspect("last-tile-only", step=overwritten(total=False, acc=True)),
    suspect("sum-overwritten", step=overwritten(total=True, acc=False)),
    suspect("new-tile-rescaled", step=rescaled_too_much),
    suspect("tile-index-ignored", inputs=lambda q, k, v, c: (q, k, repeated(v, c.block_kv))),
    suspect("tile-index-ignored", inputs=lambda q, k, v, c: (q, repeated(k, c.block_kv), v)),
    suspect("tile-index-ignored", inputs=lambda q, k, v, c: (q, repeated(k, c.block_kv), repeated(v, c.block_kv))),
    suspect("tile-index-ignored", inputs=lambda q, k, v, c: (repeated(q, c.block_q), k, v)),
    suspect("first-tile-only", tiles=lambda s: all_tiles(s)[:1]),
    suspect("first-tile-only", tiles=lambda s: all_tiles(s)[1:] or all_tiles(s)),
    suspect("last-tile-only", tiles=lambda s: all_tiles(s)[-1:]),
    suspect("last-tile-missing", tiles=lambda s: all_tiles(s)[:-1] or all_tiles(s)),
]

TAILS = [
    suspect("tail-dropped", tiles=full_tiles),
    suspect("tail-dropped", empty=zero_rows),
    suspect("tail-dropped", tiles=full_tiles, empty=zero_rows),
    suspect("tail-padded", weights=padded),
    suspect("tail-padded", weights=padded, empty=zero_rows),
    suspect("tail-counted-twice", tiles=overlapping),
]


def guarded(state: State, scene: Scene) -> tuple[Tensor, Tensor]:
    """acc / row_sum, 0 where row_sum is 0: the guard for rows without keys also hides an underflow."""
    out, lse = divide(state, scene)
    return torch.where(state[1] > 0, out, 0.0), lse


def clamped(scores: Tensor, visible: Tensor) -> Tensor:
    return scores.clamp(max=80.0).masked_fill(~visible, -math.inf)


def clamped_both(scores: Tensor, visible: Tensor) -> Tensor:
    return scores.clamp(-80.0, 80.0).masked_fill(~visible, -math.inf)


STABILITY = [
    row
    for finish in (divide, guarded)
    for row in (
        suspect("no-max-subtraction", step=no_max, finish=finish),
        suspect("max-starts-at-zero", step=update, start=max_from(0.0), finish=finish),
        suspect("max-starts-too-high", step=update, start=max_from(-100.0), finish=finish),
        suspect("max-other-quantity", step=subtracting(lambda s: s.mean(-1, keepdim=True)), finish=finish),
        suspect("max-other-quantity", step=subtracting(lambda s: s.amin(-1, keepdim=True)), finish=finish),
        suspect("max-other-quantity", step=subtracting(lambda s: s.abs().amax(-1, keepdim=True)), finish=finish),
        suspect("max-over-everything", step=whole_tile_max, finish=finish),
        suspect("max-over-everything", step=row_block_max, finish=finish),
        suspect("max-of-first-tile", step=first_max, finish=finish),
    )
] + [
    suspect("no-max-subtraction", fill=clamped),
    suspect("no-max-subtraction", fill=clamped_both),
    suspect("no-max-subtraction", step=no_max, fill=clamped),
]


# the commonest ideas, also looked for in pairs
_COMMON = [
    SCALE[0],
    SCALE[1],
    SOFTMAX[0],
    ONLINE[0],
    ONLINE[1],
    ONLINE[2],
    CAUSAL[0],
    CAUSAL[1],
    CAUSAL[5],
    HEADS[0],
    TAILS[0],
]


def carried(row_max: bool, row_sum: bool, acc: bool) -> Callable[[Attention], dict[str, Tensor]]:
    """Parts of the state are made once and not again for every tile of queries."""

    def values(case: Attention) -> dict[str, Tensor]:
        n, scale = case.q.shape[1], case.factor
        k, v = consecutive(case.k, n), consecutive(case.v, n)
        outs, state = [], None
        for rows in case.q.split(case.block_q, dim=2):
            first = rows[..., :1]
            fresh = (
                torch.full_like(first, -math.inf),
                torch.zeros_like(first),
                torch.zeros_like(rows[..., :1] * v[:, :, :1]),
            )
            kept = (row_max, row_sum, acc)
            state = (
                fresh
                if state is None
                else tuple(o if keep else f for o, f, keep in zip(state, fresh, kept, strict=True))
            )
            for keys in range(0, k.shape[2], case.block_kv):
                part = slice(keys, keys + case.block_kv)
                state = update(state, rows @ k[:, :, part].mT * scale, v[:, :, part])
            outs.append(state[2] / state[1])
        return {"attn_out": torch.cat(outs, dim=2)}

    return values


# with row_max made anew its factor exp(-inf - new) = 0 clears the other two
CARRIED = [Suspect("state-not-reset", carried(True, *kept)) for kept in ((True, True), (True, False), (False, True))]


@cache
def forward_suspects() -> list[Suspect]:
    rows = [*SCALE, *SOFTMAX, *FACTORS, *ONLINE, *TAILS, *HEADS, *CAUSAL, *WINDOW, *EMPTY_ROWS, *STABILITY]
    return suspects(rows) + CARRIED + pairs(_COMMON)
