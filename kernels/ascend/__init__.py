"""Ascend NPUs: the real one where there is one, an emulated one elsewhere. ``import kernels.ascend`` sees to it."""

from __future__ import annotations

from kernels.ascend.installation import install, is_emulated

__all__ = ["install", "is_emulated"]

install()
