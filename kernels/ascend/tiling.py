"""The tile sizes of the emulated operators. On hardware the operator's tiling code chooses; here a caller may.

They decide about speed and memory, and in which order numbers are added up; with FLASHDOJO_NUMERICS=device also after
which tile a weight is rounded. All operators keep to them, in both numerics. The sizes hold for the thread that asks:
an operator that runs inside ``with use_tile_sizes(...)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class TileSizes(NamedTuple):
    block_q: int
    block_kv: int


DEFAULT = TileSizes(128, 128)
_sizes: ContextVar[TileSizes] = ContextVar("tile_sizes", default=DEFAULT)


def tile_sizes() -> TileSizes:
    """What an operator called now uses."""
    return _sizes.get()


@contextmanager
def use_tile_sizes(block_q: int, block_kv: int) -> Iterator[None]:
    """The operators called inside use these. Raises ValueError unless both are positive."""
    if block_q < 1 or block_kv < 1:
        raise ValueError(f"tile sizes must be positive, not {block_q} x {block_kv}")
    token = _sizes.set(TileSizes(block_q, block_kv))
    try:
        yield
    finally:
        _sizes.reset(token)
