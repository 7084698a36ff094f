"""flash_attn on the emulated device, judged by upstream's comparator: out and softmax_lse of every sequence.

FLASHDOJO_OPERATOR_CASES names a .jsonl file with more cases (cut to what a CPU bears).
"""

from __future__ import annotations

import math
import os
from dataclasses import replace

import pytest
import torch
from operator_calls import CASES, NpuCase, call_of, lse_of_each, metadata_of, read_calls
from operator_table import Case, Row
from torch import Tensor

from kernels import oracle
from kernels.ascend import ops
from kernels.layouts import sequences

TOLERANCE = {"float16": (2.5e-5, 0.005), "bfloat16": (1e-4, 0.0078125)}  # absolute, relative; 0.5 % may lie outside
MORE = os.environ.get("FLASHDOJO_OPERATOR_CASES")
READ = read_calls(MORE, 1e8) if MORE else []


def share_of_bad(got: Tensor, golden: Tensor, dtype: str) -> float:
    absolute, relative = TOLERANCE[dtype]
    got, golden = got.double(), golden.to(got.dtype).double()
    got, golden = (x.masked_fill(x == math.inf, -math.inf) for x in (got, golden))
    bad = ~torch.isclose(golden, got, atol=absolute, rtol=relative)
    return bad.sum().item() / max(1, bad.numel())


def with_sinks(out: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    """The golden of a row with one more logit that has no value; a row without a key has the sink alone."""
    sink = sinks.double()[:, None].expand_as(lse)
    both = torch.stack([lse.masked_fill(lse == math.inf, -math.inf), sink])
    total = both.logsumexp(dim=0)
    return out * torch.exp(both[0] - total)[..., None], total


def judge(npu: NpuCase) -> None:
    call, case = call_of(npu), npu.case
    arguments = call.on_npu()
    out, lse = ops.flash_attn(**arguments, metadata=metadata_of(arguments))
    assert out.dtype == arguments["q"].dtype
    assert lse.dtype == torch.float32
    assert (out.device.type, lse.device.type) == ("npu", "npu")
    out, lse = out.cpu(), lse.cpu()

    arguments = call.arguments
    cu_seqlens = arguments.get("cu_seqlens_q")
    outs = sequences(out, arguments["layout_out"], cu_seqlens)
    lses = lse_of_each(lse, cu_seqlens)
    options = {name: arguments[name] for name in ("mask_mode", "win_left", "win_right")}
    bad, total = {"out": 0.0, "lse": 0.0}, {"out": 0, "lse": 0}
    drawn = call.drawn
    for row, q, k, v, got, got_lse in zip(case.rows, drawn.q, drawn.k, drawn.v, outs, lses, strict=True):
        q, k, v = q[:, :, : row.used_q], k[:, :, : row.used_kv], v[:, :, : row.used_kv]
        golden, golden_lse = oracle.forward(q, k, v, scale=arguments["softmax_scale"], **options)
        if npu.sinks:
            golden, golden_lse = with_sinks(golden, golden_lse, arguments["sinks"])
        length = golden.shape[2]
        for name, a, b in (("out", got, golden), ("lse", got_lse, golden_lse)):
            bad[name] += share_of_bad(a[:, :, :length], b, case.dtype) * b.numel()
            total[name] += b.numel()
        unseen = golden_lse == math.inf
        assert not got[:, :, :length][unseen].any()
        assert (got_lse[:, :, :length][unseen] == math.inf).all()
        assert not got[:, :, length:].any()
        assert (got_lse[:, :, length:] == math.inf).all()
    for name in bad:
        assert bad[name] <= 0.005 * total[name], name


@pytest.mark.parametrize("npu", CASES, ids=[npu.case.id for npu in CASES])
def test_own_cases(npu):
    judge(npu)


@pytest.mark.parametrize("npu", READ, ids=[f"{n} {npu.case.id}" for n, npu in enumerate(READ)])
def test_cases_from_a_file(npu):
    judge(npu)


@pytest.mark.parametrize("layout", ["PA_BBND", "PA_BNBD", "PA_NZ"])
@pytest.mark.parametrize("gaps", [False, True], ids=["dense", "strided"])
def test_pages_give_the_same_bits_as_packed_keys(layout, gaps):
    """Upstream's test of non-contiguous pages, and of pages at all: where keys lie changes no bit."""
    rows = tuple(Row(a, b) for a, b in [(70, 70), (1, 129), (33, 200)])
    packed = Case("pages", rows, 4, 2, 64, layout_q="TND", mask_mode=3)
    paged = replace(packed, rows=tuple(replace(row, used_kv=row.seq_kv) for row in rows))
    axes = 5 if layout == "PA_NZ" else 4
    results = []
    for npu in (NpuCase(packed), NpuCase(paged, layout, 32, (0, 1, *[0] * (axes - 2)) if gaps else ())):
        arguments = call_of(npu).on_npu()
        results.append(ops.flash_attn(**arguments, metadata=metadata_of(arguments)))
    assert arguments["k"].is_contiguous() == (not gaps)
    for one, other in zip(*results):
        assert torch.equal(one.cpu(), other.cpu())


def test_the_rest_of_the_pool_is_not_read():
    """Blocks that block_table does not name, and places past the length, hold nan here (operator_calls.pages)."""
    rows = (Row(5, 17, used_kv=17), Row(5, 1, used_kv=1))
    arguments = call_of(NpuCase(Case("nan", rows, 2, 2, 64), "PA_BBND", 16)).on_npu()
    assert arguments["k"].isnan().any()
    out, lse = ops.flash_attn(**arguments, metadata=metadata_of(arguments))
    assert out.isfinite().all()
    assert lse.isfinite().all()
