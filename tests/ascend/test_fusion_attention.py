"""npu_fusion_attention and its gradient against the formula in float64: layouts, masks, pse, dropout, sinks."""

from __future__ import annotations

import itertools
import math

import fusion_golden as golden
import numpy as np
import pytest
import torch
from torch import Tensor

import kernels.ascend
from kernels.ascend.device import soc
from kernels.ascend.fusion import forward as tiles
from kernels.ascend.fusion.dropout import make_dropout_mask
from kernels.ascend.tiling import use_tile_sizes

kernels.ascend.install()
import torch_npu  # noqa: E402

EPS = {torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float32: 2e-6}
LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")
FLT_MAX = torch.finfo(torch.float32).max


@pytest.fixture(autouse=True)
def a_910b():
    before = soc.current_soc().name
    soc.use_soc("Ascend910B3")
    yield
    soc.use_soc(before)


def packed(x: Tensor, layout: str) -> Tensor:
    """[B, N, S, D] in a layout, on the NPU."""
    return {
        "BNSD": lambda: x,
        "BSND": lambda: x.transpose(1, 2),
        "BSH": lambda: x.transpose(1, 2).flatten(2),
        "SBH": lambda: x.permute(2, 0, 1, 3).flatten(2),
    }[layout]().contiguous().npu()  # fmt: skip


def unpacked(x: Tensor, layout: str, heads: int) -> Tensor:
    x = x.cpu()
    return {
        "BNSD": lambda: x,
        "BSND": lambda: x.transpose(1, 2),
        "BSH": lambda: x.unflatten(2, (heads, -1)).transpose(1, 2),
        "SBH": lambda: x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3),
    }[layout]()  # fmt: skip


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def causal_mask(rows: int = 2048) -> Tensor:
    mask = torch.triu(torch.ones(2048, 2048), diagonal=1)
    if rows > 2048:
        mask = torch.cat([mask, torch.cat([torch.zeros(1024, 1024), torch.ones(1024, 1024)], dim=1)])
    return mask.bool().npu()


def close(got: Tensor, wanted: Tensor, dtype: torch.dtype, factor: float = 4) -> None:
    error = (got.double().cpu() - wanted.double()).abs().max().item() if wanted.numel() else 0.0
    assert error <= factor * EPS[dtype] * max(1.0, wanted.abs().max().item()), error


def check(
    visible: Tensor, *, b=2, n=4, nk=2, sq=9, skv=13, d=16, dv=None, layout="BNSD", dtype=torch.float32, pse=None,
    sink=None, kept=None, keep_prob=1.0, scale=0.3, **options,
):  # fmt: skip
    """Forward, statistics and gradients of one call against the golden. Returns the operator's outputs."""
    q, k = draw(b, n, sq, d, dtype=dtype, seed=1), draw(b, nk, skv, d, dtype=dtype, seed=2)
    v, dy = draw(b, nk, skv, dv or d, dtype=dtype, seed=3), draw(b, n, sq, dv or d, dtype=dtype, seed=4)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    wide_pse, wide_sink = (None if x is None else x.double().requires_grad_() for x in (pse, sink))
    want, top, total = golden.attention(
        *leaves, visible=visible, scale=scale, pse=wide_pse, sink=wide_sink, kept=kept, keep_prob=keep_prob
    )
    want.backward(dy.double())

    given = [packed(x, layout).requires_grad_() for x in (q, k, v)]
    extra = {
        name: x.npu().requires_grad_() for name, x in (("pse", pse), ("sink", sink)) if x is not None
    }  # fmt: skip
    outputs = torch_npu.npu_fusion_attention(*given, n, layout, scale=scale, keep_prob=keep_prob, **extra, **options)
    out, softmax_max, softmax_sum = outputs[:3]
    assert out.dtype == dtype
    assert out.device.type == "npu"
    assert softmax_max.shape == softmax_sum.shape == (b, n, sq, 8)
    assert softmax_max.dtype == softmax_sum.dtype == torch.float32
    close(unpacked(out, layout, n), want.detach(), dtype)
    for got, wanted in ((softmax_max, top), (softmax_sum, total)):
        assert torch.allclose(
            got.cpu().double(), wanted.detach()[..., None].expand(*wanted.shape, 8), rtol=1e-4, atol=1e-5
        )
    out.backward(packed(dy, layout))
    for x, leaf, heads in zip(given, leaves, (n, nk, nk)):
        assert x.grad.dtype == dtype
        close(unpacked(x.grad, layout, heads), leaf.grad, dtype, factor=8)
    for name, leaf in (("pse", wide_pse), ("sink", wide_sink)):
        if leaf is not None:
            assert extra[name].grad.shape == leaf.shape
            close(extra[name].grad, leaf.grad, dtype, factor=8)
    return outputs


def everything(sq=9, skv=13):
    return torch.ones(sq, skv, dtype=torch.bool)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_dtypes(layout, dtype):
    check(everything(), layout=layout, dtype=dtype)


@pytest.mark.parametrize(("n", "nk"), [(4, 4), (4, 1), (6, 3)])
def test_groups_of_query_heads(n, nk):
    check(golden.seen(9, 13, lambda i, j: j <= i + 4), n=n, nk=nk, sparse_mode=3, atten_mask=causal_mask())


def test_value_heads_may_be_narrower():
    for layout in LAYOUTS:
        check(everything(), dv=8, layout=layout)


def test_layout_names_in_any_case():
    check(everything(), layout="BSND")
    q = draw(2, 9, 4, 16).npu()
    small, large = (torch_npu.npu_fusion_attention(q, q, q, 4, name)[0].cpu() for name in ("bsnd", "BSND"))
    assert torch.equal(small, large)


def test_views_are_read_as_they_are():
    wide = draw(2, 9, 3, 4, 16).npu()  # query, key and value of one projection, [B, S, 3, N, D]
    views = [wide[:, :, i] for i in range(3)]
    copies = [x.contiguous() for x in views]
    for heads_first in (False, True):
        layout = "BNSD" if heads_first else "BSND"
        pairs = [[x.transpose(1, 2) if heads_first else x for x in xs] for xs in (views, copies)]
        one, other = (torch_npu.npu_fusion_attention(*xs, 4, layout, scale=0.3)[0].cpu() for xs in pairs)
        assert torch.equal(one, other)


BANDS = {  # sparse_mode -> rule(i, j) for Sq 9, Skv 13 or Sq 13, Skv 9, and the arguments
    "2": (2, {}, lambda i, j, corner: j <= i),
    "3": (3, {}, lambda i, j, corner: j <= i + corner),
    "4": (4, {"pre_tockens": 3, "next_tockens": 1}, lambda i, j, corner: i + corner - 3 <= j <= i + corner + 1),
    "4 behind": (4, {"pre_tockens": 4, "next_tockens": -2}, lambda i, j, corner: i + corner - 4 <= j <= i + corner - 2),
    "4 ahead": (4, {"pre_tockens": -1, "next_tockens": 3}, lambda i, j, corner: i + corner + 1 <= j <= i + corner + 3),
}


@pytest.mark.parametrize(("sq", "skv"), [(9, 13), (13, 9), (150, 140)])
@pytest.mark.parametrize("name", BANDS)
def test_compressed_masks(name, sq, skv):
    mode, options, rule = BANDS[name]
    visible = golden.seen(sq, skv, lambda i, j: rule(i, j, skv - sq))
    outputs = check(visible, sq=sq, skv=skv, sparse_mode=mode, atten_mask=causal_mask(), **options)
    invalid = ~visible.any(dim=-1)
    assert (outputs[0].cpu()[:, :, invalid] == 0).all()
    assert (outputs[1].cpu()[:, :, invalid] == -FLT_MAX).all()
    assert (outputs[2].cpu()[:, :, invalid] == FLT_MAX).all()


@pytest.mark.parametrize(
    ("mode", "shape"),
    [(mode, shape) for mode in (0, 1) for shape in ((2, 4, 9, 13), (2, 1, 9, 13), (1, 1, 9, 13), (9, 13))]
    + [(5, (2, 4, 9, 13)), (5, (2, 1, 9, 13))],  # a prefix may differ from batch to batch, and so may its mask
)
def test_whole_masks(mode, shape):
    hidden = draw(*shape, seed=7) > 0.5
    options = {"prefix": [4, 6]} if mode == 5 else {}
    for mask in (hidden, hidden.to(torch.uint8)):
        check(~hidden, sparse_mode=mode, atten_mask=mask.npu(), **options)


def test_the_band_of_mode_0_counts_from_the_top_left_corner():
    hidden = draw(9, 13, seed=7) > 0.5
    visible = golden.seen(9, 13, lambda i, j: -2 <= j - i <= 3) & ~hidden
    check(visible, sparse_mode=0, atten_mask=hidden.npu(), pre_tockens=2, next_tockens=3)
    visible = golden.seen(9, 13, lambda i, j: -5 <= j - i <= -1) & ~hidden
    check(visible, sparse_mode=0, atten_mask=hidden.npu(), pre_tockens=5, next_tockens=-1)


@pytest.mark.parametrize(("sq", "skv", "prefix"), [(9, 13, [4, 11]), (13, 9, [0, 9]), (140, 150, [145, 12])])
def test_prefixes(sq, skv, prefix):
    visible = torch.stack([golden.seen(sq, skv, lambda i, j, p=p: j <= i + skv - sq or j < p) for p in prefix])[:, None]
    check(visible, sq=sq, skv=skv, sparse_mode=6, atten_mask=causal_mask(3072), prefix=prefix)
    check(visible, sq=sq, skv=skv, sparse_mode=5, atten_mask=(~visible).npu(), prefix=prefix)


@pytest.mark.parametrize("mode", range(5))
def test_without_a_mask_every_key_is_seen(mode):
    check(everything(), sparse_mode=mode, pre_tockens=1, next_tockens=1)


@pytest.mark.parametrize("shape", [(2, 4, 9, 13), (2, 4, 1, 13), (1, 4, 9, 13)])
def test_pse_is_added_before_scaling(shape):
    check(golden.seen(9, 13, lambda i, j: j <= i), sparse_mode=2, atten_mask=causal_mask(), pse=draw(*shape, seed=9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_sink_is_one_more_logit_without_a_value(dtype):
    sink = draw(4, seed=5)
    check(everything(), sink=sink, dtype=dtype)
    visible = golden.seen(13, 9, lambda i, j: j <= i - 4)
    outputs = check(visible, sq=13, skv=9, sink=sink, dtype=dtype, sparse_mode=3, atten_mask=causal_mask())
    assert (outputs[0].cpu()[:, :, :4] == 0).all()
    assert torch.equal(outputs[1].cpu()[0, :, 0, 0], sink)


def kept_of(seed: int, keep_prob: float, *shape: int, offset: int = 0) -> Tensor:
    """The dropout mask as documented: one bit per weight, the lowest first."""
    numels = math.prod(shape)
    bits = np.unpackbits(make_dropout_mask(numels, keep_prob, seed, offset).numpy(), bitorder="little")
    return torch.from_numpy(bits[:numels]).view(shape).bool()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dropout_is_the_same_in_both_directions(layout):
    kept = kept_of(7, 0.8, 2, 4, 9, 13, offset=3)
    outputs = check(everything(), layout=layout, kept=kept, keep_prob=0.8, seed=7, offset=3)
    assert outputs[4:] == (7, 3, 2 * 4 * 9 * 13)
    with use_tile_sizes(4, 5):
        check(everything(), layout=layout, kept=kept, keep_prob=0.8, seed=7, offset=3)


def test_dropout_keeps_what_it_says():
    kept = kept_of(1, 0.7, 2_500_000)
    assert abs(kept.double().mean().item() - 0.7) < 2e-3
    assert not torch.equal(kept[:1_048_576], kept[1_048_576:2_097_152])
    masks = [kept_of(seed, 0.7, 1000, offset=offset) for seed, offset in ((1, 0), (2, 0), (1, 1), (1, 0))]
    assert torch.equal(masks[0], masks[3])
    for other in masks[1:3]:
        assert 0.3 < (masks[0] ^ other).double().mean() < 0.54  # two independent masks differ in 2 * 0.7 * 0.3


def test_a_drawn_seed_follows_the_generator():
    q = draw(1, 2, 8, 16).npu()
    runs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        runs += [torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", keep_prob=0.5) for _ in range(2)]
    out, seeds = [run[0].cpu() for run in runs], [run[4] for run in runs]
    assert seeds[:2] == seeds[2:4]
    assert len({*seeds}) == 4
    assert torch.equal(out[0], out[2])
    assert not torch.equal(out[0], out[1])
    again = torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", keep_prob=0.5, seed=seeds[0])
    assert torch.equal(again[0].cpu(), out[0])


def test_a_mask_from_outside():
    mask = torch_npu._npu_dropout_gen_mask(
        draw(1).npu(), [2, 4, 9, 13], p=0.2, seed=7, offset=0, parallel=True, sync=False
    )
    check(everything(), kept=kept_of(7, 0.8, 2, 4, 9, 13), keep_prob=0.8, seed=7, dropout_mask=mask)


def test_no_dropout_no_seed():
    q = draw(2, 4, 9, 16).npu()
    *_, seed, offset, numels = torch_npu.npu_fusion_attention(q, q, q, 4, "BNSD")
    assert (seed, offset, numels) == (0, 0, 2 * 4 * 9 * 9)
    assert torch_npu.npu_fusion_attention(q, q, q, 4, "BNSD")[3].shape == (0,)


LENGTHS = ([3, 0, 5, 2], [4, 2, 5, 6])


def pieces(x: Tensor, lengths: list[int]) -> list[Tensor]:
    """[1, N, S, D] of each sequence of [T, N, D]."""
    return [one.transpose(0, 1)[None] for one in x.split(lengths)]


@pytest.mark.parametrize("softmax_layout", ["", "TND"])
@pytest.mark.parametrize("mode", [0, 2, 3, 4, 6, 7, 8])
def test_packed_sequences(mode, softmax_layout):
    lengths_q, lengths_kv = LENGTHS
    n, nk, d, scale = 4, 2, 16, 0.3
    q, k, v = draw(10, n, d, seed=1), draw(17, nk, d, seed=2), draw(17, nk, d, seed=3)
    dy = draw(10, n, d, seed=4)
    ends = [list(itertools.accumulate(x)) for x in LENGTHS]
    prefix = [2, 2, 1, 6]
    ahead = 1 if mode == 8 else -1
    options = {"pre_tockens": 6, "next_tockens": ahead} if mode in (4, 7, 8) else {}
    if mode == 6:
        options["prefix"] = prefix
    mask = None if mode == 0 else causal_mask(3072 if mode == 6 else 2048)

    def rule(index, corner):
        band = lambda i, j: i + corner - 6 <= j <= i + corner + ahead  # noqa: E731
        if mode == 4 or (mode, index) in ((7, 3), (8, 0)):
            return band
        if mode in (2, 8):
            return lambda i, j: j <= i
        if mode in (3, 7):
            return lambda i, j: j <= i + corner
        if mode == 6:
            return lambda i, j: j <= i + corner or j < prefix[index]
        return lambda i, j: True

    given = [x.clone().npu().requires_grad_() for x in (q, k, v)]
    out, softmax_max, softmax_sum, *_ = torch_npu.npu_fusion_attention(
        *given, n, "TND", scale=scale, sparse_mode=mode, atten_mask=mask, softmax_layout=softmax_layout,
        actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1], **options,
    )  # fmt: skip
    assert softmax_max.shape == softmax_sum.shape == (10, n, 8)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    wanted = [
        golden.attention(*one, visible=golden.seen(a, b, rule(index, b - a)), scale=scale)
        for index, (one, a, b) in enumerate(
            zip(zip(*(pieces(x, y) for x, y in zip(leaves, (lengths_q, lengths_kv, lengths_kv)))), *LENGTHS)
        )
    ]
    want = torch.cat([x[0][0].transpose(0, 1) for x in wanted])
    close(out, want.detach(), torch.float32)
    for got, which in ((softmax_max, 1), (softmax_sum, 2)):
        if softmax_layout == "TND":
            blocks = torch.cat([x[which][0].mT for x in wanted])
        else:  # in memory one [N, S, 8] block per sequence, whatever the shape says
            got, blocks = got.flatten(0, 1), torch.cat([x[which].flatten() for x in wanted])
        assert torch.allclose(
            got.cpu().double(), blocks.detach()[..., None].expand(*blocks.shape, 8), rtol=1e-4, atol=1e-5
        )
    want.backward(dy.double())
    out.backward(dy.npu())
    for x, leaf in zip(given, leaves):
        close(x.grad, leaf.grad, torch.float32, factor=8)


def test_batches_that_take_no_part():
    x = draw(9, 2, 16).npu()
    short = torch_npu.npu_fusion_attention(x, x, x, 2, "TND", actual_seq_qlen=[2, 5], actual_seq_kvlen=[2, 5])
    zeros = torch_npu.npu_fusion_attention(
        x, x, x, 2, "TND", actual_seq_qlen=[2, 5, 0, 0], actual_seq_kvlen=[2, 5, 0, 0]
    )
    assert torch.equal(short[0].cpu(), zeros[0].cpu())
    assert (zeros[0].cpu()[5:] == 0).all()
    assert (zeros[1].cpu()[:5] > -FLT_MAX).all()


def test_dropout_of_packed_sequences():
    q, k = draw(5, 2, 16, seed=1), draw(7, 2, 16, seed=2)
    out, *_, numels = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), k.npu(), 2, "TND", keep_prob=0.6, seed=11, actual_seq_qlen=[2, 5], actual_seq_kvlen=[4, 7]
    )
    assert numels == 2 * (2 * 4 + 3 * 3)
    kept = kept_of(11, 0.6, numels).split([2 * 2 * 4, 2 * 3 * 3])
    for index, (a, b) in enumerate(((2, 4), (3, 3))):
        want, *_ = golden.attention(
            pieces(q, [2, 3])[index], pieces(k, [4, 3])[index], pieces(k, [4, 3])[index], scale=1.0,
            visible=everything(a, b), kept=kept[index].view(1, 2, a, b), keep_prob=0.6,
        )  # fmt: skip
        close(pieces(out.cpu(), [2, 3])[index], want, torch.float32)


@pytest.mark.parametrize("blocks", [(1, 1), (4, 3), (300, 7)])
def test_tile_sizes_change_nothing_but_the_tiles(blocks):
    with use_tile_sizes(*blocks):
        check(golden.seen(9, 13, lambda i, j: j <= i + 4), sparse_mode=3, atten_mask=causal_mask(),
              pse=draw(2, 4, 9, 13, seed=9))  # fmt: skip


def test_no_whole_score_matrix_for_long_sequences(monkeypatch):
    sizes = []
    scores = tiles.Group.scores
    monkeypatch.setattr(tiles.Group, "scores", lambda *args: sizes.append(scores(*args).numel()) or scores(*args))
    x = draw(1, 1, 1000, 8).npu()
    for blocks in ((64, 128), (128, 64), (1000, 1000)):
        sizes.clear()
        with use_tile_sizes(*blocks):
            torch_npu.npu_fusion_attention(x, x, x, 1, "BNSD", sparse_mode=3, atten_mask=causal_mask())
        assert max(sizes) == blocks[0] * blocks[1]
        visible = sum(math.ceil(min(1000, (i + 1) * blocks[0]) / blocks[1]) for i in range(math.ceil(1000 / blocks[0])))
        assert len(sizes) == visible


def test_the_devices_casts_on_request(monkeypatch):
    """What the matrix unit reads is rounded first: P before it is divided by its sum, and dS before it is scaled.

    Values and gradients cancel here, so that these roundings are far larger than the one of the result.
    """
    dtype, scale = torch.bfloat16, 0.2
    q, k = (  # rows that hardly differ
        (draw(1, 1, 1, 64, seed=seed) + 0.05 * draw(1, 1, rows, 64, seed=seed + 1)).to(dtype)
        for seed, rows in ((1, 8), (3, 16))
    )
    v = torch.tensor([100.0, -100.0] * 8)[None, None, :, None].expand(1, 1, 16, 64).to(dtype).contiguous()
    dy = torch.tensor([10.0, -10.0] * 4)[None, None, :, None].expand(1, 1, 8, 64).to(dtype).contiguous()

    def golden_with(cast):
        wide_q, wide_k, wide_v, wide_dy = (x.double() for x in (q, k, v, dy))
        scores = scale * wide_q @ wide_k.mT
        exps = torch.exp(scores - scores.amax(-1, keepdim=True))
        out = (cast(exps) @ wide_v / exps.sum(-1, keepdim=True)).to(dtype)
        p = exps / exps.sum(-1, keepdim=True)
        ds = cast(p * (wide_dy @ wide_v.mT - (wide_dy * out.double()).sum(-1, keepdim=True)))
        return out.double(), scale * ds @ wide_k, scale * ds.mT @ wide_q, cast(p).mT @ wide_dy

    def run():
        leaves = [x.npu().requires_grad_() for x in (q, k, v)]
        out = torch_npu.npu_fusion_attention(*leaves, 1, "BNSD", scale=scale)[0]
        out.backward(dy.npu())
        return out, *(x.grad for x in leaves)

    goldens = {
        "float32": golden_with(lambda x: x),
        "device": golden_with(lambda x: x.to(dtype).double()),
    }
    for numerics, other in (("float32", "device"), ("device", "float32")):
        monkeypatch.setenv("FLASHDOJO_NUMERICS", numerics)
        for got, own, another in zip(run(), goldens[numerics], goldens[other]):
            error, distance = ((got.cpu().double() - x).abs().mean() for x in (own, another))
            assert error <= 4e-3 * own.abs().mean()
            assert error <= 0.5 * distance
    monkeypatch.setenv("FLASHDOJO_NUMERICS", "hardware")
    with pytest.raises(RuntimeError, match="FLASHDOJO_NUMERICS"):
        run()


def test_it_can_be_differentiated_once():
    q = draw(1, 2, 8, 16).npu().requires_grad_()
    out = torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", scale=0.25)
    assert [x.requires_grad for x in out[:4]] == [True, False, False, False]
    (gradient,) = torch.autograd.grad(out[0].sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="has only a first one"):
        gradient.sum().backward()


@pytest.mark.parametrize("case", ["plain", "mask", "pse", "sink", "TND", "dropout"])
def test_opcheck(case):
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
    q, k = (draw(1, n, 6, 16, dtype=torch.float16, seed=n).npu().requires_grad_() for n in (4, 2))
    arguments, options = (q, k, k, 4, "BNSD"), {"scale": 0.25}
    if case == "mask":
        options |= {"sparse_mode": 3, "atten_mask": causal_mask()}
    if case == "pse":
        options["pse"] = draw(1, 4, 6, 6, dtype=torch.float16).npu().requires_grad_()
    if case == "sink":
        options["sink"] = draw(4).npu().requires_grad_()
    if case == "dropout":
        options |= {"keep_prob": 0.5, "seed": 3}
    if case == "TND":
        arguments = (*(x.detach()[0].transpose(0, 1).contiguous().requires_grad_() for x in (q, k, k)), 4, "TND")
        options |= {"actual_seq_qlen": [2, 6], "actual_seq_kvlen": [2, 6]}
    torch.library.opcheck(torch.ops.npu.npu_fusion_attention.default, arguments, options, test_utils=tests)


def test_the_gradient_operator_itself():
    q, k = draw(2, 4, 9, 16, seed=1).npu(), draw(2, 2, 13, 16, seed=2).npu()
    out, top, total, *_ = torch_npu.npu_fusion_attention(q, k, k, 4, "BNSD", scale=0.25)
    dq, dk, dv, dpse, dsink = torch_npu.npu_fusion_attention_grad(
        q, k, k, out, 4, "BNSD", softmax_max=top, softmax_sum=total, attention_in=out, scale_value=0.25
    )
    assert (dq.shape, dk.shape, dv.shape) == (q.shape, k.shape, k.shape)
    assert dpse is None
    assert dsink.shape == (0,)
    assert dsink.dtype == torch.float32
    with pytest.raises(RuntimeError, match="softmax_max is None"):
        torch_npu.npu_fusion_attention_grad(q, k, k, out, 4, "BNSD", attention_in=out)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_everything_at_once(seed):
    """Drawn combinations of layout, lengths, heads, mask, pse, sink, dropout and tiles."""
    draws = np.random.default_rng(seed)
    pick = lambda *values: values[draws.integers(len(values))]  # noqa: E731
    b, nk, group, sq, skv, d = (int(draws.integers(1, high)) for high in (4, 4, 4, 40, 40, 33))
    n, mode = nk * group, int(pick(0, 1, 2, 3, 4, 5, 6))
    dtype = pick(torch.float32, torch.float16, torch.bfloat16)
    corner, options = skv - sq, {"sparse_mode": mode}
    left, right = int(draws.integers(0, 20)), int(draws.integers(0, 20))
    prefix = [int(draws.integers(max(0, corner), skv + 1)) for _ in range(b)]
    bands = {
        2: lambda i, j: j <= i, 3: lambda i, j: j <= i + corner, 4: lambda i, j: -left <= j - i - corner <= right,
        6: lambda i, j: j <= i + corner,
    }  # fmt: skip
    visible = golden.seen(sq, skv, bands.get(mode, lambda i, j: True)).expand(b, 1, sq, skv)
    if mode in (5, 6):
        visible = golden.seen(sq, skv, bands[6]) | (torch.arange(skv) < torch.tensor(prefix)[:, None, None, None])
        options["prefix"] = prefix
    if mode in (0, 1):
        visible = draw(*pick((b, n, sq, skv), (b, 1, sq, skv), (sq, skv)), seed=seed) > -0.5
    options["atten_mask"] = (~visible).npu() if mode in (0, 1, 5) else causal_mask(3072 if mode == 6 else 2048)
    if mode in (0, 4):
        options |= {"pre_tockens": left, "next_tockens": right}
    if mode == 0:
        visible = visible & golden.seen(sq, skv, lambda i, j: -left <= j - i <= right)
    extras = {}
    if pick(True, False):
        shape = pick((b, n, sq, skv), (b, n, 1, skv), (1, n, sq, skv))
        extras["pse"] = draw(*shape, seed=seed + 1).to(dtype)
    if pick(True, False) and dtype != torch.float32:
        extras["sink"] = draw(n, seed=seed + 2)
    if pick(True, False):
        extras |= {"keep_prob": 0.7, "kept": kept_of(seed + 1, 0.7, b, n, sq, skv), "seed": seed + 1}
    with use_tile_sizes(int(draws.integers(1, 50)), int(draws.integers(1, 50))):
        check(visible, b=b, n=n, nk=nk, sq=sq, skv=skv, d=d, dv=int(draws.integers(1, d + 1)), dtype=dtype,
              layout=pick(*LAYOUTS), scale=float(draws.uniform(-0.5, 0.5)), **options, **extras)  # fmt: skip
