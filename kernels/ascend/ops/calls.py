"""The operators' arguments as one object each: order and defaults as in the registered schemas."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from kernels.ascend.ops import layouts

CU_SEQLENS, SEQUSED = ("cu_seqlens_q", "cu_seqlens_kv"), ("seqused_q", "seqused_kv")
LENGTHS = (*CU_SEQLENS, *SEQUSED)
LAYOUT_ARGUMENTS = ("layout_q", "layout_kv", "layout_out")


class _Sizes:
    """Sizes of q and k by their axes' names."""

    q: Tensor
    k: Tensor
    v: Tensor
    cu_seqlens_q: Tensor | None
    layout_q: str
    layout_kv: str

    def of_q(self, axis: str) -> int:
        return layouts.size(axis, self.layout_q, self.q.shape)

    def of_kv(self, axis: str) -> int:
        return layouts.size(axis, self.layout_kv, self.k.shape)

    @property
    def batch(self) -> int:
        if self.layout_q == "TND" and self.cu_seqlens_q is not None:
            return self.cu_seqlens_q.numel() - 1
        return self.of_q("B")


@dataclass(frozen=True, eq=False)
class FlashAttnGradCall(_Sizes):
    """flash_attn_grad(q, k, v, dout, attn_out, softmax_lse, ...)."""

    q: Tensor
    k: Tensor
    v: Tensor
    dout: Tensor
    attn_out: Tensor
    softmax_lse: Tensor
    cu_seqlens_q: Tensor | None = None
    cu_seqlens_kv: Tensor | None = None
    seqused_q: Tensor | None = None
    seqused_kv: Tensor | None = None
    sinks: Tensor | None = None
    attn_mask: Tensor | None = None
    metadata: Tensor | None = None
    softmax_scale: float = 0.0
    mask_mode: int = 0
    win_left: int = -1
    win_right: int = -1
    max_seqlen_q: int = -1
    max_seqlen_kv: int = -1
    layout_q: str = "BSND"
    layout_kv: str = "BSND"
    layout_out: str = "BSND"

    def operands(self) -> tuple[Any, ...]:
        """What the operator takes, by position."""
        return tuple(getattr(self, f.name) for f in fields(self))


@dataclass(frozen=True, eq=False)
class FlashAttnCall(_Sizes):
    """flash_attn(q, k, v, ...). attn_out and softmax_lse describe the outputs when the caller allocates them."""

    q: Tensor
    k: Tensor
    v: Tensor
    block_table: Tensor | None = None
    cu_seqlens_q: Tensor | None = None
    cu_seqlens_kv: Tensor | None = None
    seqused_q: Tensor | None = None
    seqused_kv: Tensor | None = None
    sinks: Tensor | None = None
    attn_mask: Tensor | None = None
    metadata: Tensor | None = None
    softmax_scale: float = 1.0
    mask_mode: int = 0
    win_left: int = -1
    win_right: int = -1
    max_seqlen_q: int = -1
    max_seqlen_kv: int = -1
    layout_q: str = "BSND"
    layout_kv: str = "BSND"
    layout_out: str = "BSND"
    return_softmax_lse: bool | int = False
    attn_out: Tensor | None = None
    softmax_lse: Tensor | None = None

    def operands(self) -> tuple[Any, ...]:
        """What the operator takes, by position."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in ("attn_out", "softmax_lse"))

    def backward(self, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor) -> FlashAttnGradCall:
        """The call of flash_attn_grad that belongs to this one."""
        results: dict[str, Any] = {"dout": dout, "attn_out": attn_out, "softmax_lse": softmax_lse}
        shared = {f.name: getattr(self, f.name) for f in fields(FlashAttnGradCall) if f.name not in results}
        return FlashAttnGradCall(**shared, **results)

    @property
    def paged(self) -> bool:
        return self.layout_kv in layouts.PAGED

    @property
    def block_size(self) -> int:
        """Tokens in a block of paged keys."""
        return self.of_kv("block_size")

    @property
    def out_shape(self) -> tuple[int, ...]:
        """attn_out: q's axes in the order of layout_out, v's head dim."""
        dim_v = layouts.size("D", self.layout_kv, self.v.shape)
        return tuple(dim_v if axis == "D" else self.of_q(axis) for axis in layouts.AXES[self.layout_out])

    def shapes(self) -> str:
        """All shapes, for messages."""
        tensors = [("q", self.q, self.layout_q), ("k", self.k, self.layout_kv), ("v", self.v, self.layout_kv)]
        texts = [f"{name} {layouts.named(layout, x.shape)}" for name, x, layout in tensors]
        return ", ".join(texts if self.attn_out is None else [*texts, f"attn_out {list(self.attn_out.shape)}"])


@dataclass(frozen=True, eq=False)
class FlashAttnMetadataCall:
    """flash_attn_metadata(num_heads_q, num_heads_kv, head_dim, *, ...) as it is called."""

    num_heads_q: int
    num_heads_kv: int
    head_dim: int
    head_dim_v: int | None = None
    cu_seqlens_q: Tensor | None = None
    cu_seqlens_kv: Tensor | None = None
    seqused_q: Tensor | None = None
    seqused_kv: Tensor | None = None
    batch_size: int | None = None
    max_seqlen_q: int | None = None
    max_seqlen_kv: int | None = None
    mask_mode: int | None = None
    win_left: int | None = None
    win_right: int | None = None
    layout_q: str | None = None
    layout_kv: str | None = None
    layout_out: str | None = None
    is_grad_enabled: bool = False


@dataclass(frozen=True, eq=False)
class CompleteMetadataCall:
    """The same with everything said: -1 for numbers not given. sequences: how many there are."""

    num_heads_q: int
    num_heads_kv: int
    head_dim: int
    head_dim_v: int
    cu_seqlens_q: Tensor | None
    cu_seqlens_kv: Tensor | None
    seqused_q: Tensor | None
    seqused_kv: Tensor | None
    batch_size: int
    max_seqlen_q: int
    max_seqlen_kv: int
    mask_mode: int
    win_left: int
    win_right: int
    layout_q: str
    layout_kv: str
    layout_out: str
    is_grad_enabled: bool
    sequences: int
