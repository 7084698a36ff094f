"""flash_attn_grad in float16 and bfloat16, every layout, mask mode and GQA ratio, against the float64 oracle.

Allowed is three times the error that float32 makes on the whole matrix, rounded once.
"""

from __future__ import annotations

import math

import pytest
import torch
from operator_calls import NpuCase, call_of, lse_of_each, metadata_of
from operator_table import Case, Row
from torch import Tensor

from kernels import oracle
from kernels.ascend import ops
from kernels.layouts import sequences

RAGGED = tuple(Row(a, b) for a, b in [(1, 150), (129, 129), (0, 17), (77, 0), (140, 63)])
MASKS = {"none": (0, -1, -1), "causal": (3, -1, -1), "band": (4, 30, 9), "two keys": (4, 1, 0)}
PREFIXES = (Row(130, 160, 100, 159), Row(130, 160, 0, 130), Row(130, 160, 130, 0), Row(130, 160, 17, 1))
PACKED = tuple(Row(a, b, c, d) for a, b, c, d in [(64, 128, 64, 100), (33, 140, 1, 140), (50, 10, 49, 0)])


def cases() -> list[Case]:
    found = []
    for layout in ("BNSD", "BSND", "TND"):
        rows = RAGGED if layout == "TND" else (Row(100, 150),) * 2
        for mask, (mode, left, right) in MASKS.items():
            for heads_q, heads_kv in ((2, 2), (4, 2), (6, 1)):
                for dtype in ("float16", "bfloat16"):
                    id = f"{layout} {mask} {heads_q}/{heads_kv} {dtype}"
                    options = {"mask_mode": mode, "win_left": left, "win_right": right, "ranges": ((-2.0, 2.0),) * 3}
                    found.append(Case(id, rows, heads_q, heads_kv, 64, dtype=dtype, layout_q=layout, **options))
    return [
        *found,
        Case("more queries than keys", (Row(200, 70),), 4, 2, 128, mask_mode=3),
        Case("d192 v128", (Row(65, 130),), 2, 1, 192, 128, mask_mode=3, dtype="bfloat16"),
        Case("prefixes", PREFIXES, 4, 2, 64, mask_mode=3),
        Case("prefixes in tnd", PACKED, 4, 2, 64, layout_q="TND", mask_mode=3),
        Case("several tiles", (Row(300, 270),), 2, 1, 64, mask_mode=3, layout_q="BNSD"),
    ]


def plain(case: Case, inputs: list[Tensor], dout: Tensor, lse: Tensor, out: Tensor, options: dict) -> list[Tensor]:
    """The formulas in float32 on the whole matrix, from what the contract hands over; rounded once at the end."""
    q, k, v = (x.float() for x in inputs)
    group = case.heads_q // case.heads_kv
    k, v, dout = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), dout.float()
    scale = options["scale"]
    hidden = ~oracle.visible(q.shape[2], k.shape[2], *(options[n] for n in ("mask_mode", "win_left", "win_right")))
    p = torch.exp(scale * q @ k.mT - lse[..., None]).masked_fill(hidden, 0.0)
    ds = p * (dout @ v.mT - (dout * out.float()).sum(dim=-1, keepdim=True))
    dk, dv = ((x.mT @ y).unflatten(1, (-1, group)).sum(dim=2) for x, y in ((scale * ds, q), (p, dout)))
    return [x.to(inputs[0].dtype) for x in (scale * ds @ k, dk, dv)]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_gradients(case):
    call = call_of(NpuCase(case))
    generator = torch.Generator().manual_seed(9)
    dtype = call.arguments["q"].dtype
    shapes = [(1, case.heads_q, row.seq_q, case.value_dim) for row in case.rows]
    douts = [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]
    arguments = call.on_npu()
    arguments["metadata"] = metadata_of(arguments, is_grad_enabled=True)
    out, lse = ops.flash_attn(**arguments)
    arguments.pop("return_softmax_lse")
    dout = call.drawn.pack(case, douts).npu()
    gradients = ops.flash_attn_grad(dout=dout, attn_out=out, softmax_lse=lse, **arguments)
    assert [x.shape for x in gradients] == [arguments[name].shape for name in "qkv"]
    assert [(x.dtype, x.device.type) for x in gradients] == [(dtype, "npu")] * 3

    cu_q, cu_kv = call.arguments.get("cu_seqlens_q"), call.arguments.get("cu_seqlens_kv")
    got = zip(*(sequences(x.cpu(), case.layout_q, cu) for x, cu in zip(gradients, (cu_q, cu_kv, cu_kv))))
    outs = sequences(out.cpu(), case.layout_q, cu_q)
    lses = lse_of_each(lse.cpu(), cu_q)
    options = {name: call.arguments[name] for name in ("mask_mode", "win_left", "win_right")}
    options["scale"] = call.arguments["softmax_scale"]
    drawn = call.drawn
    for row, found, q, k, v, dout, out_one, lse_one in zip(
        case.rows, got, drawn.q, drawn.k, drawn.v, douts, outs, lses, strict=True
    ):
        inputs = [q[:, :, : row.used_q], k[:, :, : row.used_kv], v[:, :, : row.used_kv]]
        of_q = [x[:, :, : row.used_q] for x in (dout, lse_one, out_one)]
        truth, rounded = oracle.backward(*inputs, of_q[0], **options), plain(case, inputs, *of_q, options)
        for name, gradient, exact, reference in zip(("dq", "dk", "dv"), found, truth, rounded):
            length = exact.shape[2]
            assert not gradient[:, :, length:].any(), name
            if exact.numel():
                error, allowed = ((x.double() - exact).abs().max() for x in (gradient[:, :, :length], reference))
                assert error <= 3 * allowed + 1e-12, name


def small() -> dict:
    generator = torch.Generator().manual_seed(1)
    q, k, v, dout = (torch.randn(1, 40, heads, 64, generator=generator).half() for heads in (4, 2, 2, 4))
    arguments = {"q": q.npu(), "k": k.npu(), "v": v.npu(), "softmax_scale": 0.125, "return_softmax_lse": True,
                 "mask_mode": 0, "win_left": -1, "win_right": -1, "layout_q": "BSND", "layout_kv": "BSND",
                 "layout_out": "BSND"}  # fmt: skip
    return arguments | {"metadata": metadata_of(arguments, is_grad_enabled=True), "dout": dout.npu()}


def gradients_of(arguments: dict, **changed) -> tuple[Tensor, ...]:
    """flash_attn with arguments, then flash_attn_grad with what changed."""
    forward = {name: x for name, x in arguments.items() if name != "dout"}
    out, lse = ops.flash_attn(**forward)
    forward.pop("return_softmax_lse")
    return ops.flash_attn_grad(dout=arguments["dout"], attn_out=out, softmax_lse=lse, **forward | changed)


def test_scale_0_means_the_usual_one_in_the_gradient_only():
    arguments = small()
    for one, other in zip(gradients_of(arguments), gradients_of(arguments, softmax_scale=0.0)):
        assert torch.equal(one.cpu(), other.cpu())
    out, lse = ops.flash_attn(**{name: x for name, x in arguments.items() if name != "dout"} | {"softmax_scale": 0.0})
    mean = arguments["v"].cpu().float().mean(dim=1).repeat_interleave(2, 1)
    assert torch.allclose(out.cpu().float(), mean[:, None].expand_as(out), atol=1e-3)
    assert torch.allclose(lse.cpu(), torch.full_like(lse.cpu(), math.log(40)))


def test_sinks_change_the_gradients_through_softmax_lse():
    """With P = exp(S - lse) and a lse that holds the sink, the usual formulas give the derivative."""
    arguments = small() | {"sinks": torch.tensor([0.0, 2.0, -1.0, 4.0]).npu()}
    got = gradients_of(arguments)
    q, k, v = (arguments[name].cpu().double().transpose(1, 2).requires_grad_() for name in "qkv")
    scores = 0.125 * q @ k.repeat_interleave(2, 1).mT
    sinks = arguments["sinks"].cpu().double()[None, :, None, None].expand(1, 4, 40, 1)
    p = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]
    out = p @ v.repeat_interleave(2, 1)
    truth = torch.autograd.grad(out, (q, k, v), arguments["dout"].cpu().double().transpose(1, 2))
    for gradient, exact in zip(got, truth):
        difference = gradient.cpu().double().transpose(1, 2) - exact
        assert difference.abs().max() <= 2e-3 * exact.abs().max()


def test_rows_that_see_nothing_give_nothing():
    case = Case("causal", (Row(60, 20),), 2, 1, 64, mask_mode=3)
    call = call_of(NpuCase(case))
    arguments = call.on_npu()
    arguments["metadata"] = metadata_of(arguments, is_grad_enabled=True)
    arguments["dout"] = torch.full_like(arguments["q"], 1.0)
    dq, dk, dv = gradients_of(arguments)
    assert not dq[:, :40].any()
    assert dq[:, 40:].any()
    seen_only = arguments | {"q": arguments["q"][:, 40:].contiguous(), "dout": arguments["dout"][:, 40:]}
    seen_only["metadata"] = metadata_of(seen_only, is_grad_enabled=True)
    for one, other in zip((dk, dv), gradients_of(seen_only)[1:]):
        assert torch.equal(one.cpu(), other.cpu())


def test_gradients_of_a_group_are_rounded_once():
    """16 query heads on one key head: nearly every value is the exact sum, rounded. A sum of 16 rounded ones is not."""
    generator = torch.Generator().manual_seed(2)
    arguments = small()
    for name, heads in (("q", 16), ("k", 1), ("v", 1), ("dout", 16)):
        arguments[name] = torch.randn(1, 40, heads, 64, generator=generator).half().npu()
    arguments["metadata"] = metadata_of(arguments, is_grad_enabled=True)
    _, _, dv = gradients_of(arguments)
    q, k, v, dout = (arguments[name].cpu().transpose(1, 2) for name in ("q", "k", "v", "dout"))
    *_, exact = oracle.backward(q, k, v, dout, scale=0.125)
    _, _, of_each = oracle.backward(q, k.expand(-1, 16, -1, -1), v.expand(-1, 16, -1, -1), dout, scale=0.125)
    partly = of_each.half().sum(dim=1, keepdim=True)
    assert (dv.cpu().transpose(1, 2) != exact.half()).double().mean() < 0.01
    assert (partly != exact.half()).double().mean() > 0.2
