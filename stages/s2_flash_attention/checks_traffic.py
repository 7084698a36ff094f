"""Checks of s2-traffic: the formulas of tiled attention, and what comes of forgetting a part of them."""

from __future__ import annotations

from grader.checking.formulas import check_number, formula, formulas
from grader.vocabulary import Context, check

FLOPS = formula("4*B*N*S1*S2*D")
HBM_BYTES = formula("e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1")

WRONG_FLOPS = formulas(
    {
        "flops-half": ["2*B*N*S1*S2*D", "B*N*S1*S2*D"],
        "cost-batch-or-heads": ["4*N*S1*S2*D", "4*B*S1*S2*D", "4*S1*S2*D"],
        "cost-square": ["4*B*N*S1*S1*D", "4*B*N*S2*S2*D"],
        "flops-head-dim": ["4*B*N*S1*S2", "4*B*N*S1*S2*D*N", "4*B*N*S1*S2*D/N"],
        "flops-bytes": ["4*e*B*N*S1*S2*D"],
        "flops-training": ["12*B*N*S1*S2*D", "14*B*N*S1*S2*D", "8*B*N*S1*S2*D", "10*B*N*S1*S2*D"],
        "flops-per-tile": ["4*B*N*bq*bkv*D", "4*B*N*ceil(S1/bq)*bq*ceil(S2/bkv)*bkv*D", "4*B*N*S1*S2*D*ceil(S1/bq)"],
        "flops-softmax": [f"B*N*S1*S2*(4*D + {n})" for n in range(1, 9)],
    }
)

WRONG_HBM_BYTES = formulas(
    {
        "traffic-floor": ["e*B*N*(2*S1*D + (S1//bq)*2*S2*D) + 4*B*N*S1"],
        "traffic-fraction": ["e*B*N*(2*S1*D + (S1/bq)*2*S2*D) + 4*B*N*S1"],
        "traffic-once": ["e*B*N*(2*S1*D + 2*S2*D) + 4*B*N*S1", "e*B*N*(2*S1*D + 2*S2*D)"],
        "traffic-wrong-loop": [
            "e*B*N*(2*S1*D + ceil(S2/bkv)*2*S2*D) + 4*B*N*S1",
            "e*B*N*(2*S2*D + ceil(S2/bkv)*2*S1*D) + 4*B*N*S1",
            "e*B*N*(ceil(S2/bkv)*2*S1*D + 2*S2*D) + 4*B*N*S1",
            "e*B*N*(2*S1*D + ceil(S1/bkv)*2*S2*D) + 4*B*N*S1",
            "e*B*N*(2*S1*D + ceil(S1/bq)*ceil(S2/bkv)*2*S2*D) + 4*B*N*S1",
            "e*B*N*(2*S1*D + ceil(S2/bq)*2*S2*D) + 4*B*N*S1",
            "e*B*N*ceil(S1/bq)*(2*S1*D + 2*S2*D) + 4*B*N*S1",
        ],
        "traffic-lse-missing": ["e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D)"],
        "traffic-lse-size": [
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D + S1)",
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + B*N*S1",
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 8*B*N*S1",
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1*D",
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*S1",
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*S1",
        ],
        "traffic-one-operand": [
            "e*B*N*(2*S1*D + ceil(S1/bq)*S2*D) + 4*B*N*S1",
            "e*B*N*(S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1",
            "e*B*N*(ceil(S1/bq)*2*S2*D) + 4*B*N*S1",
        ],
        "traffic-scores": [
            "e*B*N*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D + 4*S1*S2) + 4*B*N*S1",
        ],
        "bytes-element-size": [
            "B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1",
            "B*N*(2*S1*D + ceil(S1/bq)*2*S2*D + S1)",
        ],
        "cost-batch-or-heads": [
            "e*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*N*S1",
            "e*B*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*S1",
            "e*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*S1",
        ],
        "cost-square": [
            "e*B*N*(2*S1*D + ceil(S1/bq)*2*S1*D) + 4*B*N*S1",
            "e*B*N*(2*S2*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1",
        ],
    }
)


def traffic_arguments(ctx: Context, n: int) -> dict[str, int]:
    """Eight numbers that all differ. Case 2 has blocks that divide the lengths."""
    rng = ctx.rng(n)
    batch, heads, head_dim = (int(x) for x in rng.choice([3, 5, 7, 11, 13], 3, replace=False))
    seq_q, seq_kv = (int(x) for x in rng.choice([509, 613, 727, 829, 911], 2, replace=False))
    block_q, block_kv = ((32, 80), (112, 48), (64, 96))[n]
    if n == 2:
        seq_q, seq_kv = 64 * batch * 2, 96 * heads
    return {
        "batch": batch,
        "num_heads": heads,
        "seq_q": seq_q,
        "seq_kv": seq_kv,
        "head_dim": 8 * head_dim,
        "block_q": block_q,
        "block_kv": block_kv,
        "bytes_per_element": 2 if n != 1 else 4,
    }


@check("s2-traffic.flops", points=1.5, concept="flops")
def traffic_flops(ctx: Context) -> None:
    check_number(ctx, "flash_traffic", "flops", FLOPS, WRONG_FLOPS, lambda n: traffic_arguments(ctx, n), draws=3)


@check("s2-traffic.hbm-bytes", points=3.5, concept="memory-traffic")
def traffic_hbm_bytes(ctx: Context) -> None:
    """K and V are read once for every query tile, and a short tile at the end is one too."""
    check_number(
        ctx, "flash_traffic", "hbm_bytes", HBM_BYTES, WRONG_HBM_BYTES, lambda n: traffic_arguments(ctx, n), draws=3
    )
