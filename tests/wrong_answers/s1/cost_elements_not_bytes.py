# flashdojo: exercise=s1-cost check=s1-cost.hbm-bytes,s1-cost.score-bytes misconception=bytes-element-size
"""Counts elements and calls them bytes."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    b = batch * num_heads
    scores = b * seq_q * seq_kv
    return {"flops": 4 * scores * head_dim,
            "hbm_bytes": b * head_dim * 2 * (seq_q + seq_kv) + 4 * scores,
            "score_bytes": scores}
