# flashdojo: exercise=s1-cost check=s1-cost.hbm-bytes,s1-cost.score-bytes misconception=cost-batch-or-heads
"""One head's score matrix."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    score_elements = batch * seq_q * seq_kv
    vectors = batch * num_heads * head_dim * (2 * seq_q + 2 * seq_kv)
    return {
        "flops": 4 * score_elements * num_heads * head_dim,
        "hbm_bytes": bytes_per_element * (vectors + 4 * score_elements),
        "score_bytes": bytes_per_element * score_elements,
    }
