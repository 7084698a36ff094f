"""What attention computes and what it moves: counting, no timing."""

from __future__ import annotations


def attention_cost(
    batch: int, num_heads: int, seq_q: int, seq_kv: int, head_dim: int, bytes_per_element: int
) -> dict[str, int]:
    """Standard attention: flops (two per multiply-add), hbm_bytes, and the score_bytes that it has to keep.

    Q, K, V are read and O is written once; the scores and the weights are each written and read once.
    """
    elements = batch * num_heads * seq_q * seq_kv  # of the score matrices
    ends = batch * num_heads * head_dim * 2 * (seq_q + seq_kv)  # Q, O, K, V
    return {
        "flops": 4 * elements * head_dim,
        "hbm_bytes": bytes_per_element * (ends + 4 * elements),
        "score_bytes": bytes_per_element * elements,
    }


def flash_traffic(
    batch: int,
    num_heads: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    block_q: int,
    block_kv: int,
    bytes_per_element: int,
) -> dict[str, int]:
    """Tiled attention, query tiles outside: the same flops; K and V are read once per query tile.

    block_kv does not show: it bounds the on-chip memory, not the traffic. softmax_lse is float32.
    """
    del block_kv
    per_head = 2 * head_dim * (seq_q + -(-seq_q // block_q) * seq_kv)
    return {
        "flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * (bytes_per_element * per_head + 4 * seq_q),
    }
