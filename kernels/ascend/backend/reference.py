"""The CPU: the tiles of kernels.flash, in every float dtype and with every head dimension."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.ascend.backend.base import Backend, Scores
from kernels.ascend.tiling import DEFAULT
from kernels.flash import flash_attention_backward, flash_attention_forward


class CpuReference(Backend):
    """``block_q``, ``block_kv``: the tile sizes, which here are the caller's choice."""

    name = "CPU"
    chooses_tiles = False
    device = torch.device("cpu")

    def __init__(self, block_q: int = DEFAULT.block_q, block_kv: int = DEFAULT.block_kv):
        self.tiles = {"block_q": block_q, "block_kv": block_kv}

    def with_tiles(self, block_q: int, block_kv: int) -> CpuReference:
        return CpuReference(block_q, block_kv)

    def check_head_dims(self, dim: int, dim_v: int) -> None:
        return

    def _forward(self, how: Scores, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return flash_attention_forward(q, k, v, **how._asdict(), **self.tiles)

    def _backward(
        self, how: Scores, q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, **how._asdict(), **self.tiles)
