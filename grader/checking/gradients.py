"""Gradients of attention: what is right for a case, and the formulas with any of their steps replaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from grader.checking.cases import Attention, normal
from grader.checking.compare import Expected, accumulate_dtype, eps, largest, largest_error, rounding
from grader.checking.wrong_attention import consecutive
from kernels import oracle

NAMES = ("dq", "dk", "dv")
Case = TypeVar("Case", bound=Attention)


def with_dout(rng: np.random.Generator, case: Case) -> Case:
    """The case with a random upstream gradient [B, N1, S1, Dv]."""
    shape = (*case.q.shape[:3], case.v.shape[-1])
    return case.but(dout=normal(rng, *shape, dtype=case.q.dtype))


def inputs(case: Attention) -> tuple[Tensor, ...]:
    """The positional arguments of ``flash_attention_backward``: forward's outputs are the oracle's, rounded."""
    out, lse = case.truth
    return case.q, case.k, case.v, given_dout(case), out.to(case.q.dtype), lse.float()


def given_dout(case: Attention) -> Tensor:
    if case.dout is None:
        raise ValueError("the case has no upstream gradient")
    return case.dout


def expected(case: Attention) -> dict[str, Expected]:
    """dq, dk, dv; the tolerance is 3 times plain PyTorch's error, at least what rounding explains."""
    if "gradients" not in case.memo:
        truth = oracle.backward(case.q, case.k, case.v, given_dout(case), **case.geometry())
        plains = [gradients(case, {}), gradients(case, {"scores": lambda q, k, s: (q * s) @ k.mT})]
        sizes = _magnitudes(case)
        slack = 50.0 if case.q.dtype == torch.float64 else 1.0
        unit = 2 * eps(accumulate_dtype(case.q.dtype)) * (2 + case.logits) + rounding(case.q.dtype)
        case.memo["gradients"] = {}
        for name, want, size in zip(NAMES, truth, sizes, strict=True):
            measured = max(largest_error(plain[name].to(case.q.dtype), want) for plain in plains)
            tol = slack * max(3 * measured if math.isfinite(measured) else 0.0, unit * size)
            rows, columns = (case.block_q, case.block_kv) if name == "dq" else (case.block_kv, case.block_q)
            case.memo["gradients"][name] = Expected(name, want, tol, case.q.dtype, rows, columns)
    return case.memo["gradients"]


def _magnitudes(case: Attention) -> tuple[float, float, float]:
    """The largest sum of absolute terms in each gradient: what rounding errors are relative to."""
    scene = _scene(case, {})
    term = scene.p * (scene.dp.abs() + scene.d_term.abs())
    dk, dv = (
        x.unflatten(1, (case.k.shape[1], -1)).sum(2) for x in (term.mT @ scene.q.abs(), scene.p.mT @ scene.dout.abs())
    )
    return abs(case.factor) * largest(term @ scene.k.abs()), abs(case.factor) * largest(dk), largest(dv)


@dataclass
class Scene:
    """Everything the formulas speak of, per query head, in the dtype of the sums."""

    case: Attention
    q: Tensor
    k: Tensor
    v: Tensor
    dout: Tensor
    out: Tensor
    lse: Tensor  # [B, N1, S1, 1]
    scores: Tensor
    visible: Tensor
    p: Tensor
    dp: Tensor
    d_term: Tensor  # [B, N1, S1, 1]


Changes = Mapping[str, Callable[..., Any]]


def _scene(case: Attention, changes: Changes) -> Scene:
    dtype = accumulate_dtype(case.q.dtype)
    q, k, v, dout, out, lse = (x.to(dtype) for x in inputs(case))
    heads = changes.get("heads", consecutive)
    k, v = heads(k, q.shape[1]), heads(v, q.shape[1])
    scale = changes.get("scale", lambda c: c.factor)(case)
    scores = changes.get("scores", lambda q, k, s: (q @ k.mT) * s)(q, k, scale)
    visible = changes.get("visible", lambda c: c.visible)(case)
    lse = lse[..., None]
    p = changes.get("p", lambda s, lse, visible: (s - lse).exp().masked_fill(~visible, 0.0))(scores, lse, visible)
    if "tile_p" in changes:
        p = changes["tile_p"](scores.masked_fill(~visible, -math.inf), case)
    dp = changes.get("dp", lambda dout, v: dout @ v.mT)(dout, v)
    scene = Scene(case, q, k, v, dout, out, lse, scores, visible, p, dp, lse)
    scene.d_term = changes.get("d_term", lambda s: (s.dout * s.out).sum(-1, keepdim=True))(scene)
    return scene


def gradients(case: Attention, changes: Changes) -> dict[str, Tensor]:
    """dq, dk, dv by the formulas with some steps replaced.

    Steps: ``heads``, ``scale``, ``scores``, ``visible``, ``p``, ``tile_p``, ``dp``, ``d_term``, ``ds``, ``scale_q``,
    ``scale_k``, ``scale_v``, ``dq``, ``dk``, ``dv``, ``fold``, ``order``.
    """
    s = _scene(case, changes)
    ds = changes.get("ds", lambda s: s.p * (s.dp - s.d_term))(s)
    dq = changes.get("dq", lambda s, ds: ds @ s.k)(s, ds) * changes.get("scale_q", lambda c: c.factor)(case)
    dk = changes.get("dk", lambda s, ds: ds.mT @ s.q)(s, ds) * changes.get("scale_k", lambda c: c.factor)(case)
    dv = changes.get("dv", lambda s, ds: s.p.mT @ s.dout)(s, ds) * changes.get("scale_v", lambda c: 1.0)(case)
    fold = changes.get("fold", lambda x, n: x.unflatten(1, (n, -1)).sum(2))
    parts = dq, fold(dk, case.k.shape[1]), fold(dv, case.k.shape[1])
    return dict(zip(NAMES, changes.get("order", lambda *parts: parts)(*parts), strict=True))


def of_rows(case: Attention, rows: Tensor) -> Expected:
    """dq of some query rows of a case without mask."""
    some = case.but(q=case.q[:, :, rows], dout=given_dout(case)[:, :, rows], block_q=0)
    return expected(some)["dq"]


def of_keys(case: Attention, out: Tensor, lse: Tensor, keys: Tensor) -> tuple[Expected, Expected]:
    """dk and dv of some keys of a case without mask and groups, from forward's attn_out and softmax_lse."""
    q, k, v, dout = (x.double() for x in (case.q, case.k[:, :, keys], case.v[:, :, keys], given_dout(case)))
    p = (q @ k.mT * case.factor - lse.double()[..., None]).exp()
    dp, d_term = dout @ v.mT, (dout * out.double()).sum(-1, keepdim=True)
    unit = 4 * eps(torch.float32) * (4 + case.logits)
    size = case.factor * largest((p * (dp.abs() + d_term.abs())).mT @ q.abs())
    dk = Expected("dk", case.factor * (p * (dp - d_term)).mT @ q, unit * size, torch.float32)
    return dk, Expected("dv", p.mT @ dout, unit * largest(p.mT @ dout.abs()), torch.float32)
