"""npu_fusion_attention tile by tile: sizes change nothing, no whole score matrix, the device's casts on request."""

from __future__ import annotations

import math

import fusion_golden as golden
import pytest
import torch
from fusion_calls import causal_mask, check, draw, torch_npu

from kernels.ascend.fusion import forward as tiles
from kernels.ascend.tiling import use_tile_sizes

pytestmark = pytest.mark.usefixtures("chip_910b")


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
