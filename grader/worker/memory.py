"""What makes memory seen from outside the same as memory in use."""

from __future__ import annotations

import ctypes

import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
_libc = ctypes.CDLL(None)


def keep_malloc_honest() -> None:
    """Fix glibc's thresholds, which else grow. Large tensors go back to the kernel when freed; the pages of tiles are
    used again, since fetching them anew would take two thirds of a tiled pass."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(M_MMAP_THRESHOLD, 2 << 20)
        _libc.mallopt(M_TRIM_THRESHOLD, 1 << 20)


def trim() -> None:
    """Give free memory back to the kernel."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def warm_up() -> None:
    """Run the operators of an attention once: the first use of each pages in megabytes of library code."""
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            a, b = torch.ones(64, 64, dtype=dtype), torch.ones(2, 64, 64, dtype=dtype)
            ((a @ a) + torch.bmm(b, b)).amax(-1).exp().log().sum(-1)
            torch.where(a > 0, a, a.new_full((), float("-inf"))).masked_fill_(a < 0, 0).maximum(a).mul_(a).sub_(a)
            torch.baddbmm(b, b, b).div_(b).transpose(1, 2).contiguous().float()
            torch.cat([a, a]).max(-1).values.isinf().any()
