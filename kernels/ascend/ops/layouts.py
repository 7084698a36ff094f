"""The operators' layouts: what each axis of a shape means, and one [1, N, length, D] view for every sequence.

Queries and outputs come as BNSD, BSND or TND, keys and values also in pages (paged.py). Everything is computed on BNSD.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kernels.layouts import sequences

AXES = {
    "BNSD": ("B", "N", "S", "D"),
    "BSND": ("B", "S", "N", "D"),
    "TND": ("T", "N", "D"),
    "PA_BBND": ("blocks", "block_size", "N", "D"),
    "PA_BNBD": ("blocks", "N", "block_size", "D"),
    "PA_NZ": ("blocks", "N", "D/16", "block_size", "16"),
}
PLAIN = ("BNSD", "BSND", "TND")
PAGED = ("PA_BBND", "PA_BNBD", "PA_NZ")
# layout_q -> which layout_kv and layout_out go with it (flash_attn document, table of layouts)
TOGETHER = {
    "BNSD": (("BNSD", *PAGED), ("BNSD", "BSND")),
    "BSND": (("BSND", *PAGED), ("BSND",)),
    "TND": (("TND", *PAGED), ("TND",)),
}


def size(axis: str, layout: str, shape: Sequence[int]) -> int:
    """One size by the name of its axis; "D" of PA_NZ is that of the two axes together."""
    if layout == "PA_NZ" and axis == "D":
        return shape[2] * shape[4]
    return shape[AXES[layout].index(axis)]


def named(layout: str, shape: Sequence[int]) -> str:
    """A shape with its axes' names, for messages: [B 2, S 128, N 8, D 64]."""
    return f"[{', '.join(f'{axis} {n}' for axis, n in zip(AXES[layout], shape, strict=True))}]"


def lse_shape(layout_q: str, q_shape: Sequence[int]) -> tuple[int, ...]:
    """softmax_lse has its heads before the positions in every layout: [B, N1, S1], or [N1, T1] for TND."""
    if layout_q == "TND":
        return q_shape[1], q_shape[0]
    return tuple(size(axis, layout_q, q_shape) for axis in "BNS")


def views(x: Tensor, layout: str, cu_seqlens: Tensor | None, seqused: Tensor | None, *, whole: bool) -> list[Tensor]:
    """[1, N, length, D] for each sequence; with whole, all sequences at once as [B, N, S, D]. Views, not copies."""
    if whole:
        return [x if layout == "BNSD" else x.transpose(1, 2)]
    return sequences(x, layout, cu_seqlens, seqused)


def lse_views(
    lse: Tensor, layout: str, cu_seqlens: Tensor | None, seqused: Tensor | None, *, whole: bool
) -> list[Tensor]:
    """[1, N1, length, 1] for each sequence of softmax_lse, or [B, N1, S1, 1]."""
    if layout == "TND":
        return views(lse.T[..., None], "TND", cu_seqlens, seqused, whole=whole)
    return views(lse[..., None], "BNSD", None, seqused, whole=whole)
