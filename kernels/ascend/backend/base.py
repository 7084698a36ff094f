"""What a backend is: attention forward and backward for BNSD tensors, wherever they lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor


class Scores(NamedTuple):
    """How scores come from q and k: their scale, and which of them are seen (mask_mode 0, 3, 4 of flash_attn)."""

    scale: float
    mask_mode: int = 0
    win_left: int = -1
    win_right: int = -1


def dims_of(dim: int, dim_v: int) -> str:
    """Head dimensions as messages name them."""
    return str(dim) if dim == dim_v else f"{dim} with Dv {dim_v}"


class Backend(ABC):
    """q [B, N1, S1, D], k [B, N2, S2, D], v [B, N2, S2, Dv].

    Results come back on the device of q. ``device`` is where the kernel reads.
    """

    name: str
    chooses_tiles: bool = True  # the operator's own tiling code does; a caller's block_size means nothing
    device: torch.device

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *,
        scale: float, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """attn_out [B, N1, S1, Dv] in the dtype of q, softmax_lse [B, N1, S1] float32, +inf in rows that see no key."""
        how = Scores(scale, mask_mode, win_left, win_right)
        out, lse = self._forward(how, *self._moved(q, k, v))
        return out.to(q.device), lse.to(q.device)

    def backward(
        self, q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor, *,
        scale: float, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """(dq, dk, dv) in the dtypes of q, k, v, from what the forward took and returned."""
        how = Scores(scale, mask_mode, win_left, win_right)
        dq, dk, dv = self._backward(how, *self._moved(q, k, v, dout, attn_out, softmax_lse))
        return dq.to(q.device), dk.to(q.device), dv.to(q.device)

    def documents_backward(self, dtype: torch.dtype, mask_mode: int) -> bool:
        """Whether the kernel's documents promise right gradients for such inputs; others it may compute as well."""
        return True

    def with_tiles(self, block_q: int, block_kv: int) -> Backend:
        """This backend with these tile sizes, as far as it lets a caller choose."""
        return self

    @abstractmethod
    def check_head_dims(self, dim: int, dim_v: int) -> None:
        """Raises RuntimeError, with the head dimensions that go, for one that the kernel does not take."""

    @abstractmethod
    def _forward(self, how: Scores, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]: ...

    @abstractmethod
    def _backward(
        self, how: Scores, q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def _moved(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.to(self.device).contiguous() for x in tensors)
