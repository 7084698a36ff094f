"""How the operators round: float32 softmax weights as upstream's tests expect, or the hardware's 16-bit casts.

FLASHDOJO_NUMERICS=device asks for the latter. It is read at every call.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

VARIABLE = "FLASHDOJO_NUMERICS"
DIGITS = {torch.float16: 11, torch.bfloat16: 8}  # significant binary digits, the hidden one included


def as_on_device() -> bool:
    """Raises RuntimeError for a value that means nothing."""
    value = os.environ.get(VARIABLE) or "float32"
    if value not in ("float32", "device"):
        raise RuntimeError(f"{VARIABLE} is {value!r}: it must be device (the hardware's 16-bit casts) or float32")
    return value == "device"


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x rounded as the vector unit does: half away from zero, saturating. PyTorch rounds halves to even instead.

    The result is still float32, with values that dtype can hold. Other dtypes than float16 and bfloat16: x itself.
    """
    if dtype not in DIGITS:
        return x
    limits = torch.finfo(dtype)
    wide = x.double()
    # x = mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1; below the smallest normal number the step stays the same
    step = torch.ldexp(torch.ones_like(wide), torch.frexp(wide).exponent - DIGITS[dtype])
    step.clamp_(min=limits.smallest_normal * limits.eps)
    rounded = torch.trunc(wide / step + 0.5 * wide.sign()) * step
    return torch.where(wide.isfinite(), rounded, wide).clamp(limits.min, limits.max).to(x.dtype)
