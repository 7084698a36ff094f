"""What npu_fusion_attention's queries see: sparse_mode, atten_mask, prefixes; and pse, added to their scores."""

from __future__ import annotations

import fusion_golden as golden
import pytest
import torch
from fusion_calls import FLT_MAX, causal_mask, check, draw, everything

pytestmark = pytest.mark.usefixtures("chip_910b")


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
