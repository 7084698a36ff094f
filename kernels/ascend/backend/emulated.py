"""The same code as on a real NPU, on the emulated one, which lets a caller choose its tile sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.ascend.backend.base import Backend, Scores
from kernels.ascend.tiling import DEFAULT, use_tile_sizes


class Emulated(Backend):
    """``real``: the backend of the chip that is emulated."""

    chooses_tiles = False

    def __init__(self, real: Backend, block_q: int = DEFAULT.block_q, block_kv: int = DEFAULT.block_kv):
        self.real, self.tiles = real, (block_q, block_kv)
        self.name, self.device = f"{real.name} (emulated)", real.device

    def with_tiles(self, block_q: int, block_kv: int) -> Emulated:
        return Emulated(self.real, block_q, block_kv)

    def check_head_dims(self, dim: int, dim_v: int) -> None:
        self.real.check_head_dims(dim, dim_v)

    def documents_backward(self, dtype: torch.dtype, mask_mode: int) -> bool:
        return self.real.documents_backward(dtype, mask_mode)

    def _forward(self, how: Scores, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        with use_tile_sizes(*self.tiles):
            return self.real._forward(how, q, k, v)

    def _backward(
        self, how: Scores, q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        with use_tile_sizes(*self.tiles):
            return self.real._backward(how, q, k, v, dout, attn_out, softmax_lse)
