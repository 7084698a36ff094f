"""Checks of s4-tune: four schedules, each at least 80 % of the gain that its idea has in the performance model."""

from __future__ import annotations

from grader.vocabulary import Context, check

from .tuning import require_gain


@check("s4-tune.block-size", points=5, concept="tuning")
def tune_block_size(ctx: Context) -> None:
    """MTE2 is full because every tile uses K and V for 64 rows only."""
    require_gain(ctx, "block-size")


@check("s4-tune.overflow", points=5, concept="buffers")
def tune_overflow(ctx: Context) -> None:
    """Double buffers of S and O do not fit; a smaller tile is the expensive way out."""
    require_gain(ctx, "overflow")


@check("s4-tune.on-chip", points=5, concept="tuning")
def tune_on_chip(ctx: Context) -> None:
    """P takes the way through global memory although there is a wire."""
    require_gain(ctx, "on-chip")


@check("s4-tune.preload", points=5, concept="tuning")
def tune_preload(ctx: Context) -> None:
    """No pipe is full: the cube core waits for softmax."""
    require_gain(ctx, "preload")
