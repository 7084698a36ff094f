"""FLASHDOJO_NUMERICS=device against a golden with the same casts, written on the whole matrix and in another way."""

from __future__ import annotations

import math

import pytest
import torch
from operator_calls import CASES, NpuCase, call_of, metadata_of
from operator_table import Case, Row
from torch import Tensor

from kernels import oracle
from kernels.ascend import ops
from kernels.ascend.numerics import cast
from kernels.ascend.tiling import use_tile_sizes

HIDDEN = torch.finfo(torch.float32).min
TILE = 128


@pytest.fixture
def as_on_device(monkeypatch):
    monkeypatch.setenv("FLASHDOJO_NUMERICS", "device")


def all_values(dtype: torch.dtype) -> list[float]:
    """Every finite value of a 16-bit dtype, in order."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    values = bits.view(dtype)
    return values[values.isfinite()].float().unique().tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cast_rounds_to_the_nearest_and_halves_away_from_zero(dtype):
    values = torch.tensor(all_values(dtype), dtype=torch.float64)
    low, high = values[:-1], values[1:]
    assert torch.equal(cast(values, dtype), values)
    middle = (low + high) / 2  # exact in float64
    assert torch.equal(cast(middle, dtype), torch.where(low.abs() > high.abs(), low, high))
    assert torch.equal(cast(low + (high - low) * 0.49, dtype), low)
    assert torch.equal(cast(low + (high - low) * 0.51, dtype), high)


def test_cast_on_single_values():
    ties = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 2**-25, 1e9, -1e9, math.inf])
    assert cast(ties, torch.float16).tolist() == [
        1 + 2**-10, 1 + 2**-9, -1 - 2**-10, 2**-24, 65504.0, -65504.0, 65504.0,
    ]  # fmt: skip
    assert ties[:1].half().item() == 1.0  # PyTorch rounds this half to the even neighbour
    assert cast(torch.tensor([math.nan]), torch.bfloat16).isnan().all()
    assert cast(torch.tensor([1 + 2**-8]), torch.bfloat16).item() == 1 + 2**-7


def scores_of(q: Tensor, k: Tensor, options: dict, scale: float) -> Tensor:
    scores = (q.float() @ k.float().mT) * scale
    visible = oracle.visible(q.shape[-2], k.shape[-2], **options)
    return torch.where(visible, scores, HIDDEN)


def golden(
    q: Tensor, k: Tensor, v: Tensor, options: dict, scale: float, sink: float, tile: int
) -> tuple[Tensor, Tensor]:
    """One head. Tile j is weighted by the row's maximum up to and including tile j, and what was rounded stays so."""
    scores, dtype = scores_of(q, k, options, scale), q.dtype
    maxima = torch.stack([part.amax(dim=-1) for part in scores.split(tile, dim=-1)], dim=-1)
    running = maxima.clamp(min=sink).cummax(dim=-1).values
    final = running[:, -1:]
    out, total = torch.zeros(len(q), v.shape[-1]), torch.exp(sink - final)
    for j, (part, values) in enumerate(zip(scores.split(tile, dim=-1), v.split(tile, dim=-2))):
        p, later = torch.exp(part - running[:, j : j + 1]), torch.exp(running[:, j : j + 1] - final)
        total = total + p.sum(dim=-1, keepdim=True) * later
        out += later * (cast(p, dtype).double() @ values.double()).float()
    unseen = final == HIDDEN
    lse = torch.where(unseen, math.inf, final + total.log())
    return torch.where(unseen, 0.0, out / total), lse[:, 0]


FORWARD = [npu for npu in CASES if not npu.paged and all(row.seq_kv and row.used_kv is None for row in npu.case.rows)]


@pytest.mark.parametrize("npu", FORWARD[:12] + [npu for npu in FORWARD if npu.sinks], ids=lambda npu: npu.case.id)
def test_forward(npu, as_on_device):
    check_forward(npu, TILE)


@pytest.mark.parametrize("tile", [32, 48, 1000])
def test_tile_sizes_hold_in_these_numerics_too(tile, as_on_device):
    npu = NpuCase(Case("b", (Row(70, 300),), 2, 2, 64, ranges=((-2.0, 2.0),) * 3))
    with use_tile_sizes(16, tile):
        check_forward(npu, tile)


def check_forward(npu: NpuCase, tile: int) -> None:
    """Against the golden that rounds after keys in tiles of this size."""
    call, case = call_of(npu), npu.case
    arguments = call.on_npu()
    out, lse = ops.flash_attn(**arguments, metadata=metadata_of(arguments))
    options = {name: arguments[name] for name in ("mask_mode", "win_left", "win_right")}
    group = case.heads_q // case.heads_kv
    sinks = call.arguments["sinks"].tolist() if npu.sinks else [HIDDEN] * case.heads_q
    goldens = [
        golden(q[0, h], k[0, h // group], v[0, h // group], options, arguments["softmax_scale"], sinks[h], tile)
        for q, k, v in zip(call.drawn.q, call.drawn.k, call.drawn.v)
        for h in range(case.heads_q)
    ]
    expected = torch.cat([x for x, _ in goldens])
    got = torch.cat([x.transpose(0, 1).flatten(0, 1) for x in in_heads(out.cpu(), case, arguments["layout_out"])])
    # one float32 rounding may tip a cast: a few outputs differ by one step of the output's dtype, none by more
    assert step_difference(got, expected.to(got.dtype)) <= 0.01
    expected_lse = torch.cat([x for _, x in goldens])
    got_lse = lse.cpu() if lse.dim() == 3 else torch.cat([x.flatten() for x in lse.cpu().split(lengths(case), dim=-1)])
    assert torch.allclose(got_lse.flatten(), expected_lse, rtol=1e-5, atol=1e-5)


def lengths(case: Case) -> list[int]:
    return [row.seq_q for row in case.rows]


def in_heads(out: Tensor, case: Case, layout: str) -> list[Tensor]:
    """[S, N, D] of each sequence."""
    if layout == "TND":
        return list(out.split(lengths(case)))
    return list(out if layout == "BSND" else out.transpose(1, 2))


def step_difference(got: Tensor, expected: Tensor) -> float:
    """The share of values that differ; more than one step of the dtype (or a little near 0) is not accepted at all."""
    difference = (got.double() - expected.double()).abs()
    step = expected.double().abs() * torch.finfo(got.dtype).eps
    assert (difference <= 2 * step + 1e-5 * expected.double().abs().max()).all()
    return (difference > 0).double().mean().item()


GRAD = [
    Case("d64 gqa", (Row(150, 200),), 4, 2, 64, ranges=((-2.0, 2.0),) * 3),
    Case("causal bf16", (Row(200, 200),), 2, 2, 64, mask_mode=3, dtype="bfloat16", ranges=((-2.0, 2.0),) * 3),
    Case("band", (Row(140, 270),), 2, 1, 64, mask_mode=4, win_left=50, win_right=3, ranges=((-1.0, 1.0),) * 3),
]


@pytest.mark.parametrize("case", GRAD, ids=lambda case: case.id)
def test_backward(case, as_on_device):
    call = call_of(NpuCase(case))
    arguments = call.on_npu()
    arguments["metadata"] = metadata_of(arguments, is_grad_enabled=True)
    out, lse = ops.flash_attn(**arguments)
    generator = torch.Generator().manual_seed(4)
    dout = torch.randn(out.shape, generator=generator).to(out.dtype)
    arguments.pop("return_softmax_lse")
    got = ops.flash_attn_grad(dout=dout.npu(), attn_out=out, softmax_lse=lse, **arguments)

    options = {name: arguments[name] for name in ("mask_mode", "win_left", "win_right")}
    scale, group, dtype = arguments["softmax_scale"], case.heads_q // case.heads_kv, dout.dtype
    q, k, v = (x[0] for x in (call.drawn.q[0], call.drawn.k[0], call.drawn.v[0]))
    do, y = dout[0].transpose(0, 1), out.cpu()[0].transpose(0, 1)
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    p = torch.exp(scores_of(q, k, options, scale) - lse.cpu()[0, ..., None])
    sfmg = (do.float() * y.float()).sum(dim=-1, keepdim=True)
    ds = cast(p * (do.float() @ v.float().mT - sfmg), dtype).double()
    of_group = lambda x: x.unflatten(0, (-1, group)).sum(dim=1)  # noqa: E731
    expected = (
        ds @ k.double() * scale,
        of_group(ds.mT @ q.double()) * scale,
        of_group(cast(p, dtype).double().mT @ do.double()),
    )
    for name, x, golden_x in zip(("dq", "dk", "dv"), got, expected):
        assert step_difference(x.cpu()[0].transpose(0, 1), golden_x.to(dtype)) <= 0.02, name


def test_the_casts_show(as_on_device, monkeypatch):
    """The two modes differ where a weight needs more than 11 bits, and both stay within upstream's tolerance."""
    arguments = call_of(NpuCase(Case("b", (Row(64, 300),), 2, 2, 64, ranges=((-1.0, 1.0),) * 3))).on_npu()
    metadata = metadata_of(arguments)
    device, _ = ops.flash_attn(**arguments, metadata=metadata)
    monkeypatch.setenv("FLASHDOJO_NUMERICS", "float32")
    default, _ = ops.flash_attn(**arguments, metadata=metadata)
    assert not torch.equal(device.cpu(), default.cpu())
    assert torch.allclose(device.cpu(), default.cpu(), atol=2.5e-4, rtol=0.005)


def test_an_unknown_value_is_refused(monkeypatch):
    monkeypatch.setenv("FLASHDOJO_NUMERICS", "fast")
    arguments = call_of(NpuCase(Case("b", (Row(8, 8),), 2, 2, 64))).on_npu()
    with pytest.raises(RuntimeError, match=r"FLASHDOJO_NUMERICS is 'fast': it must be device"):
        ops.flash_attn(**arguments, metadata=metadata_of(arguments))
