"""flash_attn on the emulated device, judged by upstream's comparator: out and softmax_lse of every sequence.

FLASHDOJO_OPERATOR_CASES names a .jsonl file with more cases (cut to what a CPU bears).
"""

from __future__ import annotations

import math
import os

import pytest
import torch
from operator_calls import CASES, NpuCase, call_of, lse_of_each, metadata_of, read_calls
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
