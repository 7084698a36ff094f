"""npu_fusion_attention's dropout: which weights are kept, the seed, both directions."""

from __future__ import annotations

import fusion_golden as golden
import pytest
import torch
from fusion_calls import LAYOUTS, check, close, draw, everything, kept_of, pieces, torch_npu

from kernels.ascend.tiling import use_tile_sizes

pytestmark = pytest.mark.usefixtures("chip_910b")


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


def test_a_drawn_seed_comes_from_the_devices_own_generator():
    q = draw(1, 2, 8, 16).npu()
    torch.manual_seed(0)
    before, seeds = torch.get_rng_state(), []
    for seed in (5, 5, 6):
        torch.npu.manual_seed(seed)
        seeds.append(torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", keep_prob=0.5)[4])
    assert seeds[0] == seeds[1] != seeds[2]
    assert torch.equal(torch.get_rng_state(), before)
    state = torch.npu.get_rng_state()
    torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", keep_prob=0.5, seed=3)
    torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD")
    assert torch.equal(torch.npu.get_rng_state(), state)  # nothing to draw


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
