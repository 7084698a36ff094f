"""The dropout mask: one bit per weight, 1 = kept, made from (seed, offset) so that forward and backward agree.

On a 910B the host side generates it before the operator runs, numels bits rounded up to 128, and returns seed, offset
and numels for the backward (FlashAttentionKernelNpuOpApi.cpp). Bits are numbered [B, N, Sq, Skv] row by row, with TND
one [N, Sq, Skv] block per sequence. The stream is numpy's Philox here: another than the device's, equally repeatable.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

CHUNK = 1 << 20  # weights drawn at a time; a multiple of 8


def mask_bytes(numels: int) -> int:
    """The length of a mask for numels weights: whole blocks of 128 bits."""
    return -(-numels // 128) * 16


def make_dropout_mask(numels: int, keep_prob: float, seed: int, offset: int) -> Tensor:
    """uint8 [mask_bytes(numels)], the lowest bit first."""
    stream = np.random.Generator(np.random.Philox(key=seed % (1 << 64), counter=offset % (1 << 64)))
    packed = np.zeros(mask_bytes(numels), np.uint8)
    for start in range(0, numels, CHUNK):
        kept = stream.random(min(CHUNK, numels - start), np.float32) < np.float32(keep_prob)
        bits = np.packbits(kept, bitorder="little")
        packed[start // 8 : start // 8 + len(bits)] = bits
    return torch.from_numpy(packed)


class Kept:
    """Reads the rows of one group of sequences out of a mask."""

    def __init__(self, mask: Tensor, start: int, batch: int, heads: int, seq_q: int, seq_kv: int):
        self.bytes = mask.numpy()
        self.start, self.sizes = start, (batch, heads, seq_q, seq_kv)

    def rows(self, rows: slice) -> Tensor:
        """float32 [B, N, rows, Skv]: 1 where the weight is kept."""
        batch, heads, seq_q, seq_kv = self.sizes
        count = (rows.stop - rows.start) * seq_kv
        kept = np.empty((batch * heads, count), np.float32)
        for index in range(batch * heads):
            first = self.start + (index * seq_q + rows.start) * seq_kv
            bits = np.unpackbits(self.bytes[first // 8 : (first + count + 7) // 8], bitorder="little")
            kept[index] = bits[first % 8 : first % 8 + count]
        return torch.from_numpy(kept).view(batch, heads, -1, seq_kv)
