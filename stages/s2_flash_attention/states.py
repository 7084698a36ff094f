"""Cases of the online softmax state: one update, a merge, and what is right for them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from grader.checking.cases import normal
from grader.checking.compare import Expected, eps, largest
from grader.checking.wrong_attention import State, shifted, update
from grader.text import Text, say

NAMES = ("row_max", "row_sum", "acc")


def fresh(shape: tuple[int, ...], dim: int) -> State:
    """The state before the first tile: (-inf, 0, 0)."""
    return torch.full((*shape, 1), -math.inf), torch.zeros(*shape, 1), torch.zeros(*shape, dim)


def expectations(truth: State, logits: float) -> dict[str, Expected]:
    """What the three parts of a state must be; sums of positive terms lose little, so rounding bounds them."""
    unit = eps(torch.float32)
    _, row_sum, acc = truth
    size = max(1.0, largest(acc.abs()), largest(row_sum))
    tols = (
        4 * unit * max(1.0, logits),
        8 * unit * (1 + logits) * max(1.0, largest(row_sum)),
        8 * unit * (1 + logits) * size,
    )
    return {name: Expected(name, part, tol, torch.float32) for name, part, tol in zip(NAMES, truth, tols, strict=True)}


@dataclass(frozen=True)
class Update:
    """``online_softmax_update(state, scores, values)``."""

    state: State
    scores: Tensor
    values: Tensor
    what: Text

    @cached_property
    def expected(self) -> dict[str, Expected]:
        truth = update(tuple(part.double() for part in self.state), self.scores.double(), self.values.double())  # type: ignore[arg-type]
        return expectations(truth, 30.0)

    def describe(self) -> Text:
        shape = f"scores {list(self.scores.shape)}"
        return say(f"{self.what.zh}：{shape}", f"{self.what.en}: {shape}")


@dataclass(frozen=True)
class Merge:
    """``merge_states(a, b)``."""

    a: State
    b: State
    what: Text

    @cached_property
    def expected(self) -> dict[str, Expected]:
        a, b = (tuple(part.double() for part in state) for state in (self.a, self.b))
        return expectations(join(a, b), 30.0)  # type: ignore[arg-type]

    def describe(self) -> Text:
        return self.what


def join(a: State, b: State) -> State:
    row_max = torch.maximum(a[0], b[0])
    wa, wb = shifted(a[0], row_max), shifted(b[0], row_max)
    return row_max, a[1] * wa + b[1] * wb, a[2] * wa + b[2] * wb


def draw_state(rng: np.random.Generator, shape: tuple[int, ...], dim: int, level: float = 0.0) -> State:
    """The state after some tiles: maxima of both signs around ``level``, sums between 1 and 5."""
    row_max = level + normal(rng, *shape, 1, spread=2.0)
    row_sum = 1 + 4 * torch.from_numpy(rng.random((*shape, 1))).float()
    return row_max, row_sum, row_sum * normal(rng, *shape, dim)


def draw_update(rng: np.random.Generator, n: int) -> Update:
    """From the middle of the keys: the maximum grows in some rows and not in others."""
    shape, keys, dim = (((2, 3, 6), 5, 4), ((1, 2, 9), 7, 3))[n]
    state = draw_state(rng, shape, dim)
    scores = normal(rng, *shape, keys, spread=1.5)
    return Update(state, scores, normal(rng, *shape[:-1], keys, dim), say("一次更新", "one update"))


def draw_merge(rng: np.random.Generator, n: int) -> Merge:
    shape, dim = (((2, 3, 6), 4), ((1, 2, 9), 3))[n]
    return Merge(draw_state(rng, shape, dim), draw_state(rng, shape, dim), say("两个非空状态", "two states with keys"))
