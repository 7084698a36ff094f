"""The kernels on cases like the operator's own, judged by the operator's own tolerances.

FLASHDOJO_OPERATOR_CASES names a .jsonl file with more of them (cut to 0.3 GFLOP each).
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from operator_table import TABLE, Case, cut, draw, read_cases
from torch import Tensor

from kernels import oracle
from kernels.layouts import attention_backward, attention_forward, sequences

TOLERANCE = {"float16": (2.5e-5, 0.005), "bfloat16": (1e-4, 0.0078125)}  # absolute, relative; 0.5 % may lie outside
MORE = os.environ.get("FLASHDOJO_OPERATOR_CASES")
CASES = TABLE + [cut(case, 3e8) for case in (read_cases(MORE) if MORE else [])]


def share_of_bad(got: Tensor, golden: Tensor, dtype: str) -> float:
    absolute, relative = TOLERANCE[dtype]
    got, golden = got.double(), golden.to(got.dtype).double()
    got, golden = (x.masked_fill(x == math.inf, -math.inf) for x in (got, golden))
    bad = ~torch.isclose(golden, got, atol=absolute, rtol=relative)
    return bad.sum().item() / max(1, bad.numel())


def used(case: Case, x: list[Tensor], of: str) -> list[Tensor]:
    """Each sequence cut to its prefix."""
    return [one[:, :, : getattr(row, f"used_{of}")] for one, row in zip(x, case.rows)]


def lse_of_each(lse: Tensor, cu_seqlens: Tensor | None) -> list[Tensor]:
    """softmax_lse [1, N1, length] of each sequence."""
    if cu_seqlens is None:
        return list(lse.split(1))
    return [lse[None, :, a:b] for a, b in pairwise(cu_seqlens.tolist())]


@pytest.mark.parametrize("case", CASES, ids=[f"{n} {case.id}" for n, case in enumerate(CASES)])
def test_forward(case):
    drawn = draw(case)
    q, k, v = (drawn.pack(case, x) for x in (drawn.q, drawn.k, drawn.v))
    layout_out = case.layout_out or case.layout_q
    layouts = {"layout_q": case.layout_q, "layout_kv": case.layout_q, "layout_out": layout_out}
    out, lse = attention_forward(q, k, v, **layouts, **drawn.arguments)
    assert out.dtype == q.dtype
    assert lse.dtype == torch.float32

    cu_seqlens = drawn.arguments.get("cu_seqlens_q")
    outs, lses = sequences(out, layout_out, cu_seqlens), lse_of_each(lse, cu_seqlens)
    options = {name: drawn.arguments[name] for name in ("scale", "mask_mode", "win_left", "win_right")}
    queries, keys, values = used(case, drawn.q, "q"), used(case, drawn.k, "kv"), used(case, drawn.v, "kv")
    for got, got_lse, *inputs in zip(outs, lses, queries, keys, values, strict=True):
        golden, golden_lse = oracle.forward(*inputs, **options)
        length = golden.shape[2]
        assert share_of_bad(got[:, :, :length], golden, case.dtype) <= 0.005
        assert share_of_bad(got_lse[:, :, :length], golden_lse, case.dtype) <= 0.005
        assert not got[:, :, length:].any()
        assert (got_lse[:, :, length:] == math.inf).all()


def plain_gradients(
    inputs: tuple[Tensor, ...], dout: Tensor, out: Tensor, lse: Tensor, options: dict
) -> tuple[Tensor, ...]:
    """The operator's backward formulas in float32 on the whole matrix, rounded once, to the inputs' dtype.

    They start from what the operator's contract hands over: attn_out in the inputs' dtype and softmax_lse in float32.
    """
    q, k, v = (x.float() for x in inputs)
    group = q.shape[1] // k.shape[1]
    k, v, dout = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), dout.float()
    scale = 1 / math.sqrt(q.shape[-1]) if options["scale"] is None else options["scale"]
    hidden = ~oracle.visible(q.shape[2], k.shape[2], *(options[n] for n in ("mask_mode", "win_left", "win_right")))
    p = torch.exp(scale * q @ k.mT - lse[..., None]).masked_fill(hidden, 0.0)
    ds = p * (dout @ v.mT - (dout * out.float()).sum(dim=-1, keepdim=True))
    dk, dv = ((x.mT @ y).unflatten(1, (-1, group)).sum(dim=2) for x, y in ((scale * ds, q), (p, dout)))
    return tuple(x.to(inputs[0].dtype) for x in (scale * ds @ k, dk, dv))


@pytest.mark.parametrize("dtype", ["as the case", "float32"])
@pytest.mark.parametrize("case", TABLE, ids=[case.id for case in TABLE])
def test_backward(case, dtype):
    case = replace(case, dtype=dtype) if dtype == "float32" else case
    drawn = draw(case)
    generator = torch.Generator().manual_seed(9)
    douts = [torch.randn(*q.shape[:3], v.shape[3], generator=generator).to(q.dtype) for q, v in zip(drawn.q, drawn.v)]
    q, k, v, dout = (drawn.pack(case, x) for x in (drawn.q, drawn.k, drawn.v, douts))
    layouts = {"layout_q": case.layout_q, "layout_kv": case.layout_q, "layout_out": case.layout_q}
    out, lse = attention_forward(q, k, v, **layouts, **drawn.arguments)
    gradients = attention_backward(q, k, v, dout, out, lse, layout=case.layout_q, **drawn.arguments)
    assert [g.dtype for g in gradients] == [q.dtype] * 3

    cu_q, cu_kv = drawn.arguments.get("cu_seqlens_q"), drawn.arguments.get("cu_seqlens_kv")
    by_sequence = zip(*(sequences(g, case.layout_q, cu) for g, cu in zip(gradients, (cu_q, cu_kv, cu_kv))))
    outs, lses = used(case, sequences(out, case.layout_q, cu_q), "q"), used(case, lse_of_each(lse, cu_q), "q")
    options = {name: drawn.arguments[name] for name in ("scale", "mask_mode", "win_left", "win_right")}
    of_each = zip(used(case, drawn.q, "q"), used(case, drawn.k, "kv"), used(case, drawn.v, "kv"))
    results = zip(used(case, douts, "q"), outs, lses)
    for got, inputs, (dout_one, *forward) in zip(by_sequence, of_each, results, strict=True):
        truth = oracle.backward(*inputs, dout_one, **options)
        plain = plain_gradients(inputs, dout_one, *forward, options)
        for name, gradient, exact, rounded in zip(("dq", "dk", "dv"), got, truth, plain):
            length = exact.shape[2]
            assert not gradient[:, :, length:].any()
            if exact.numel():
                error, allowed = ((x.double() - exact).abs().max() for x in (gradient[:, :, :length], rounded))
                assert error <= 3 * allowed + 1e-12, name
