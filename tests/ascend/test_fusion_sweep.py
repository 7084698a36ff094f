"""npu_fusion_attention with everything at once."""

from __future__ import annotations

import fusion_golden as golden
import numpy as np
import pytest
import torch
from fusion_calls import LAYOUTS, causal_mask, check, draw, kept_of

from kernels.ascend.tiling import use_tile_sizes

pytestmark = pytest.mark.usefixtures("chip_910b")


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
