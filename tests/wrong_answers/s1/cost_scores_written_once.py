# flashdojo: exercise=s1-cost check=s1-cost.hbm-bytes misconception=bytes-scores
"""Scores written and read, but the softmax's own write and read forgotten."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    e, B, N, S1, S2, D = bytes_per_element, batch, num_heads, seq_q, seq_kv, head_dim
    return dict(flops=4 * B * N * S1 * S2 * D,
                hbm_bytes=e * B * N * (2 * S1 * D + 2 * S2 * D + 2 * S1 * S2),
                score_bytes=e * B * N * S1 * S2)
