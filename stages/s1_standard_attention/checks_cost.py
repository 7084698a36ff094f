"""Checks of s1-cost."""

from __future__ import annotations

from grader.checking.formulas import check_number
from grader.vocabulary import Context, check

from . import cost_mistakes as cost


def _arguments(ctx: Context, n: int) -> dict[str, int]:
    """Six numbers that all differ, so that no two formulas agree by chance."""
    rng = ctx.rng(n)
    batch, heads, head_dim = (int(x) for x in rng.choice([3, 5, 7, 11, 13], 3, replace=False))
    seq_q, seq_kv = (int(x) for x in rng.choice([101, 127, 151, 173, 199, 211], 2, replace=False))
    return {
        "batch": batch,
        "num_heads": heads,
        "seq_q": seq_q,
        "seq_kv": seq_kv,
        "head_dim": head_dim * 8,
        "bytes_per_element": 2 if n % 2 else 4,
    }


@check("s1-cost.flops", points=5, concept="flops")
def cost_flops(ctx: Context) -> None:
    check_number(ctx, "attention_cost", "flops", cost.FLOPS, cost.WRONG_FLOPS, lambda n: _arguments(ctx, n))


@check("s1-cost.hbm-bytes", points=6, concept="memory-traffic")
def cost_hbm_bytes(ctx: Context) -> None:
    check_number(ctx, "attention_cost", "hbm_bytes", cost.HBM_BYTES, cost.WRONG_HBM_BYTES, lambda n: _arguments(ctx, n))


@check("s1-cost.score-bytes", points=4, concept="quadratic-memory")
def cost_score_bytes(ctx: Context) -> None:
    check_number(
        ctx, "attention_cost", "score_bytes", cost.SCORE_BYTES, cost.WRONG_SCORE_BYTES, lambda n: _arguments(ctx, n)
    )
