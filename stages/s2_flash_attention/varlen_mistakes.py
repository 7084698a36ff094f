"""Wrong ideas about packed sequences: their borders, their masks, and all that can go wrong inside one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, HEADS, SCALE
from grader.checking.diagnose import Suspect
from grader.checking.packed import Packed, starts
from grader.checking.wrong_attention import Changes, simulate

from .mistakes import ONLINE, TAILS


def _by_sequence(
    changes: Changes,
    starts_q: Callable[[Packed], list[int]] | None = None,
    starts_kv: Callable[[Packed], list[int]] | None = None,
) -> Callable[[Packed], dict[str, Tensor]]:
    """Every sequence on its own, with wrong steps inside or wrong borders."""

    def values(case: Packed) -> dict[str, Tensor]:
        out = torch.zeros(*case.q.shape[:2], case.v.shape[-1])
        at = (starts_q or (lambda c: starts(c.lengths_q)))(case)
        for part, start in zip(case.parts(at, starts_kv(case) if starts_kv else None), at, strict=False):
            if part.q.shape[2] and part.k.shape[2]:
                out[start : start + part.q.shape[2]] = simulate(part, changes)["attn_out"][0].transpose(0, 1)
        return {"attn_out": out}

    return values


def _one_sequence(mask: Callable[[Packed], Tensor] | None = None) -> Callable[[Packed], dict[str, Tensor]]:
    """All tokens as one sequence."""

    def values(case: Packed) -> dict[str, Tensor]:
        whole = case.parts([0, case.q.shape[0]], [0, case.k.shape[0]])[0]
        return {
            "attn_out": simulate(whole, {"visible": lambda c: mask(case)} if mask else {})["attn_out"][0].transpose(
                0, 1
            )
        }

    return values


def _blocks(case: Packed) -> Tensor:
    """Who is in the same sequence as whom, [T1, T2]."""
    ids = [
        torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        for lengths in (case.lengths_q, case.lengths_kv)
    ]
    return ids[0][:, None] == ids[1][None, :]


def _global_causal(case: Packed) -> Tensor:
    """The causal mask by positions in the packed tensors."""
    mask = _blocks(case)
    i, j = torch.arange(mask.shape[0])[:, None], torch.arange(mask.shape[1])[None, :]
    return mask & (j <= i + mask.shape[1] - mask.shape[0]) if case.mask_mode == 3 else mask


def _global_top_left(case: Packed) -> Tensor:
    mask = _blocks(case)
    i, j = torch.arange(mask.shape[0])[:, None], torch.arange(mask.shape[1])[None, :]
    return mask & (j <= i) if case.mask_mode == 3 else mask


def _seeing_earlier(case: Packed) -> Tensor:
    ids = [
        torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        for lengths in (case.lengths_q, case.lengths_kv)
    ]
    return ids[1][None, :] <= ids[0][:, None]


@cache
def varlen_suspects() -> list[Suspect]:
    inner = [
        Suspect(id, _by_sequence(changes), loose=loose)
        for id, changes, loose in [*SCALE, *ONLINE, *TAILS, *HEADS, *CAUSAL]
    ]
    return [
        *inner,
        Suspect("varlen-sequences-mixed", _one_sequence()),
        Suspect("varlen-sequences-mixed", _one_sequence(_seeing_earlier)),
        Suspect("varlen-query-borders-for-keys", _by_sequence({}, starts_kv=lambda c: starts(c.lengths_q))),
        Suspect("varlen-query-borders-for-keys", _by_sequence({}, starts_q=lambda c: starts(c.lengths_kv))),
        Suspect("varlen-last-sequence-missing", _by_sequence({}, starts_q=lambda c: starts(c.lengths_q)[:-1])),
        Suspect("varlen-global-positions", _one_sequence(_global_causal)),
        Suspect("varlen-global-positions", _one_sequence(_global_top_left)),
    ]
