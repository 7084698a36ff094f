"""Wrong ideas about the sliding window (mask_mode 4)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checking.cases import Attention
from grader.checking.wrong_attention import suspect


def window(rule: Callable[[Tensor, int, int], Tensor]) -> Callable[[Attention], Tensor]:
    """Visible keys by ``rule(distance, left, right)``: distance = key - the query's diagonal, -1 a huge number."""

    def visible(case: Attention) -> Tensor:
        s1, s2 = case.q.shape[2], case.k.shape[2]
        delta = torch.arange(s2)[None, :] - torch.arange(s1)[:, None] - (s2 - s1)
        left, right = (1 << 30 if side == -1 else side for side in (case.win_left, case.win_right))
        return rule(delta, left, right) if case.mask_mode == 4 else case.visible

    return visible


def top_left(case: Attention) -> Tensor:
    s1, s2 = case.q.shape[2], case.k.shape[2]
    delta = torch.arange(s2)[None, :] - torch.arange(s1)[:, None]
    left, right = (1 << 30 if side == -1 else side for side in (case.win_left, case.win_right))
    return (delta >= -left) & (delta <= right) if case.mask_mode == 4 else case.visible


def literal(replacement: int) -> Callable[[Attention], Tensor]:
    """-1 taken as a width (``replacement`` 0: as no neighbours at all)."""

    def visible(case: Attention) -> Tensor:
        s1, s2 = case.q.shape[2], case.k.shape[2]
        delta = torch.arange(s2)[None, :] - torch.arange(s1)[:, None] - (s2 - s1)
        left, right = (replacement if side == -1 else side for side in (case.win_left, case.win_right))
        return (delta >= -left) & (delta <= right) if case.mask_mode == 4 else case.visible

    return visible


def _inside(d: Tensor, left: int, right: int) -> Tensor:
    return (d >= -left) & (d <= right)


WINDOW = [
    suspect("window-ignored", visible=window(lambda d, l, r: d < 1 << 30)),
    suspect("window-is-causal", visible=window(lambda d, l, r: d <= 0)),
    suspect("window-end-exclusive", visible=window(lambda d, l, r: (d > -l) & (d <= r))),
    suspect("window-end-exclusive", visible=window(lambda d, l, r: (d >= -l) & (d < r))),
    suspect("window-end-exclusive", visible=window(lambda d, l, r: (d > -l) & (d < r))),
    suspect("window-one-too-wide", visible=window(lambda d, l, r: (d >= -l - 1) & (d <= r + 1))),
    suspect("window-one-too-wide", visible=window(lambda d, l, r: (d >= -l - 1) & (d <= r))),
    suspect("window-one-too-wide", visible=window(lambda d, l, r: (d >= -l) & (d <= r + 1))),
    suspect("window-swapped", visible=window(lambda d, l, r: (d >= -r) & (d <= l))),
    suspect("window-one-side", visible=window(lambda d, l, r: d >= -l)),
    suspect("window-one-side", visible=window(lambda d, l, r: d <= r)),
    suspect("window-causal-too", visible=window(lambda d, l, r: (d >= -l) & (d <= min(r, 0)))),
    suspect("window-top-left", visible=top_left),
    suspect("window-minus-one", visible=literal(-1)),
    suspect("window-minus-one", visible=literal(0)),
    suspect("window-inverted", visible=window(lambda d, l, r: ~_inside(d, l, r))),
    suspect("window-left-only-symmetric", visible=window(lambda d, l, r: d.abs() <= l)),
    suspect("window-left-only-symmetric", visible=window(lambda d, l, r: d.abs() <= r)),
]
