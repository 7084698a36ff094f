"""The inputs on which forward (and what is built on it) is examined, one function per regime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking.cases import Attention, Make, Shape, draw, normal


def even(rng: np.random.Generator, n: int) -> Attention:
    """Several heads and batches, several whole tiles."""
    return draw(rng, (Shape(2, 3, seq_q=48, dim=8), Shape(1, 2, seq_q=36, dim=12))[n], **blocks((16, 16), (12, 12))[n])


def blocks(*sizes: tuple[int, int]) -> list[dict[str, int]]:
    return [{"block_q": q, "block_kv": kv} for q, kv in sizes]


def unequal(rng: np.random.Generator, n: int) -> Attention:
    """``even`` with block_q != block_kv."""
    return even(rng, n).but(**blocks((16, 24), (18, 6))[n])


def tails(rng: np.random.Generator, n: int) -> Attention:
    """Lengths that are not multiples of the block sizes."""
    extra = int(rng.integers(1, 8))
    shape = (Shape(1, 2, seq_q=32 + extra, dim=8), Shape(1, 3, seq_q=40 + extra, dim=6))[n]
    return draw(rng, shape, **blocks((16, 16), (8, 16))[n])


def whole(case: Attention) -> Attention:
    """The same kind of case with lengths that are multiples of the blocks."""
    q, k, v = (
        x[:, :, : x.shape[2] // block * block]
        for x, block in ((case.q, case.block_q), (case.k, case.block_kv), (case.v, case.block_kv))
    )
    return case.but(q=q, k=k, v=v)


def rectangular(rng: np.random.Generator, n: int) -> Attention:
    """S1 != S2, both ways."""
    shape = (Shape(1, 2, seq_q=16, seq_kv=48, dim=8), Shape(2, 1, seq_q=60, seq_kv=24, dim=6))[n]
    return draw(rng, shape, **blocks((16, 16), (12, 8))[n])


def square(case: Attention) -> Attention:
    """S1 = S2 = a multiple of both blocks."""
    length = math.lcm(case.block_q, case.block_kv)
    times = -(-length // min(case.q.shape[2], case.k.shape[2]))
    q, k, v = (x.repeat(1, 1, times, 1)[:, :, :length] for x in (case.q, case.k, case.v))
    return case.but(q=q, k=k, v=v)


def large(rng: np.random.Generator, n: int, sign: float) -> Attention:
    """Logits near ``sign`` * 300 which still differ by a few, and whose level changes from tile to tile."""
    case = even(rng, n)
    d = case.q.shape[-1]
    k = case.k * 0.06
    k[..., 0] = sign * (20.0 - 0.02 * torch.arange(k.shape[2]).float().roll(7))
    q = case.q * 5
    q[..., 0] = 15.0 * math.sqrt(d)
    return case.but(q=q, k=k)


def high(rng: np.random.Generator, n: int) -> Attention:
    return large(rng, n, 1.0)


def low(rng: np.random.Generator, n: int) -> Attention:
    return large(rng, n, -1.0)


def mixed(rng: np.random.Generator, n: int) -> Attention:
    """Rows near -300, -150, -60 and +300 in one tile: one maximum for all, or a finite start, makes some underflow."""
    case = large(rng, n, 1.0)
    q = case.q.clone()
    q[..., 0] *= torch.tensor([-1.0, 1.0, -0.2, -0.5]).repeat(q.shape[2] // 4)
    return case.but(q=q)


def rising(rng: np.random.Generator, n: int) -> Attention:
    """Logits that rise by more than 100 from tile to tile in even heads and fall in odd ones."""
    case = even(rng, n)
    d, tiles = case.q.shape[-1], case.k.shape[2] // case.block_kv
    levels = torch.linspace(-1, 1, tiles).repeat_interleave(case.block_kv)
    k, q = case.k.clone(), case.q.clone()
    k[..., 0] = levels * torch.tensor([1.0, -1.0, 1.0])[: k.shape[1], None]
    q[..., 0] = 150.0 * math.sqrt(d)
    return case.but(q=q, k=k)


def spiky(rng: np.random.Generator, n: int) -> Attention:
    """In every tile one key stands 200 above the others, a different one from tile to tile."""
    case = even(rng, n)
    k, q = case.k.clone(), case.q.clone()
    k[..., 0] = 0.0
    for tile in range(0, k.shape[2], case.block_kv):
        k[:, :, tile + int(rng.integers(case.block_kv)), 0] = 1.0
    q[..., 0] = 200.0 * math.sqrt(q.shape[-1])
    return case.but(q=q, k=k)


def gqa(rng: np.random.Generator, n: int) -> Attention:
    shape = (Shape(2, 6, 2, seq_q=32, dim=8), Shape(1, 8, 4, seq_q=24, dim=6))[n]
    return draw(rng, shape, **blocks((16, 16), (12, 8))[n])


def ungrouped(case: Attention) -> Attention:
    """The same values with one key/value head per query head."""
    return case.but(k=case.k.repeat_interleave(case.group, dim=1), v=case.v.repeat_interleave(case.group, dim=1))


def causal(rng: np.random.Generator, n: int) -> Attention:
    shape = (Shape(1, 2, seq_q=64, dim=8), Shape(2, 2, seq_q=48, dim=6))[n]
    return draw(rng, shape, mask_mode=3, **blocks((16, 16), (16, 8))[n])


def causal_offset(rng: np.random.Generator, n: int) -> Attention:
    """S1 < S2 by a number that is no multiple of a block."""
    shape = (Shape(1, 2, seq_q=32, seq_kv=48 + 5, dim=8), Shape(1, 3, seq_q=24, seq_kv=24 + 13, dim=6))[n]
    return draw(rng, shape, mask_mode=3, **blocks((16, 16), (8, 12))[n])


def empty_rows(rng: np.random.Generator, n: int) -> Attention:
    """S1 > S2: the first S1 - S2 queries see no key; whole tiles of them, and part of a tile."""
    shape = (Shape(1, 2, seq_q=53, seq_kv=32, dim=8), Shape(2, 1, seq_q=40, seq_kv=20, dim=6))[n]
    return draw(rng, shape, mask_mode=3, **blocks((16, 16), (16, 12))[n])


WINDOWS = ((11, 4), (0, 0), (-1, 7), (13, -1), (-1, -1))


def window(left: int, right: int) -> Make:
    """mask_mode 4 with S1 = S2. Case 1 has other sides, open where these are."""
    other = (5, 12) if left >= 0 and right >= 0 else (max(-1, left - 2), max(-1, right - 2))

    def make(rng: np.random.Generator, n: int) -> Attention:
        shape = (Shape(1, 2, seq_q=48), Shape(1, 2, seq_q=36, dim=6))[n]
        sides = ((left, right), other)[n]
        return draw(rng, shape, mask_mode=4, win_left=sides[0], win_right=sides[1], **blocks((16, 16), (12, 12))[n])

    return make


def window_offset(rng: np.random.Generator, n: int) -> Attention:
    shape = (Shape(1, 2, seq_q=32, seq_kv=53, dim=8), Shape(1, 2, seq_q=24, seq_kv=40, dim=6))[n]
    return draw(rng, shape, mask_mode=4, win_left=9 - n, win_right=4 - n, **blocks((16, 16), (12, 8))[n])


def half_range(rng: np.random.Generator, n: int) -> Attention:
    """float16 whose raw products q.k leave its range (65504) while the scaled logits stay moderate."""
    shape = Shape(1, 2, seq_q=32, dim=16)
    case = draw(rng, shape, dtype=torch.float16, spread=1.0, scale=2.0**-14, block_q=16, block_kv=16)
    q, k = case.q * 12, case.k * 12
    q[..., :4], k[..., :4] = 192.0, 256.0
    return case.but(q=q, k=k)


def many_tiles(rng: np.random.Generator, n: int) -> Attention:
    """130 tiles of keys with nearly equal weights: a row_sum in bfloat16 stops growing."""
    q, k = (normal(rng, 1, 1, length, 8, dtype=torch.bfloat16, spread=0.1) for length in (16, 1040 - 104 * n))
    v = (1 + 0.3 * normal(rng, 1, 1, k.shape[2], 8)).bfloat16()
    return Attention(q, k, v, block_q=16, block_kv=8)


def overflowing_sums(rng: np.random.Generator, n: int) -> Attention:
    """float16 values near 220: the sum over 560 keys leaves the range of float16, the mean does not."""
    q, k = (normal(rng, 1, 1, length, 8, dtype=torch.float16, spread=0.1) for length in (16, 560 + 112 * n))
    v = (220 * (1 + 0.1 * normal(rng, 1, 1, k.shape[2], 8))).half()
    return Attention(q, k, v, block_q=16, block_kv=56)


def cancelling_gradients(rng: np.random.Generator, n: int) -> Attention:
    """float16 with upstream gradients near +400 in the first half of the rows and -400 in the second.

    What dv adds up on the way leaves the range of float16, the result does not."""
    q, k = (normal(rng, 1, 1, length, 8, dtype=torch.float16, spread=0.1) for length in (1040 + 104 * n, 26))
    sign = torch.where(torch.arange(q.shape[2]) < q.shape[2] // 2, 400.0, -400.0)[:, None]
    dout = (sign * (1 + 0.1 * normal(rng, *q.shape))).half()
    return Attention(q, k[:, :, :2], normal(rng, 1, 1, 2, 8, dtype=torch.float16), block_q=52, block_kv=2, dout=dout)


def strided(rng: np.random.Generator, n: int) -> Attention:
    """Stored as [B, S, N, D]."""
    case = even(rng, n)
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (case.q, case.k, case.v))
    return case.but(q=q, k=k, v=v)


def packed(rng: np.random.Generator, n: int) -> Attention:
    """k and v are views of one tensor, q a view with gaps."""
    case = even(rng, n)
    kv = torch.stack([case.k, case.v], dim=3)
    gaps = torch.cat([case.q, case.q], dim=-1)[..., : case.q.shape[-1]]
    return case.but(q=gaps, k=kv[..., 0, :], v=kv[..., 1, :])


def contiguous(case: Attention) -> Attention:
    return case.but(q=case.q.contiguous(), k=case.k.contiguous(), v=case.v.contiguous())


def shared(rng: np.random.Generator, n: int) -> Attention:
    """q, k and v are one tensor, as in self-attention without projections."""
    case = even(rng, n)
    return case.but(k=case.q, v=case.q)


def separate(case: Attention) -> Attention:
    return case.but(q=case.q.clone(), k=case.k.clone(), v=case.v.clone())


def one_head(rng: np.random.Generator, length: int, block: int, dim: int, **fields: Any) -> Attention:
    """One long head, for memory and tiles: B = N1 = N2 = 1."""
    return draw(rng, Shape(1, 1, seq_q=length, dim=dim), block_q=block, block_kv=block, **fields)


def odd_one(rng: np.random.Generator, n: int) -> Attention:
    """A shape that no other check uses: 0 and 2 without mask, 1 with rows that see no key."""
    case = draw(rng, Shape(1, 3, seq_q=60, dim=10), block_q=20, block_kv=20)
    return case.but(k=case.k[:, :, :40], v=case.v[:, :, :40], mask_mode=3) if n == 1 else case


def sample_rows(case: Attention, rng: np.random.Generator, count: int = 24) -> tuple[Attention, Tensor]:
    """Some query rows of an unmasked case, as a case of their own whose oracle is cheap."""
    rows = torch.from_numpy(np.sort(rng.choice(case.q.shape[2], count, replace=False)))
    return case.but(q=case.q[:, :, rows], block_q=0), rows


def in_float32(case: Attention) -> Attention:
    """The same values in float32."""
    dout = case.dout.float() if case.dout is not None else None
    return case.but(q=case.q.float(), k=case.k.float(), v=case.v.float(), dout=dout)
