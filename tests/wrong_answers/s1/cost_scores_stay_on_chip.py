# flashdojo: exercise=s1-cost check=s1-cost.hbm-bytes misconception=bytes-scores-missing
"""Counts Q, K, V and O only, as if the score matrix never left the chip."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    heads = batch * num_heads
    q_bytes = heads * seq_q * head_dim * bytes_per_element
    k_bytes = v_bytes = heads * seq_kv * head_dim * bytes_per_element
    o_bytes = q_bytes
    score_bytes = heads * seq_q * seq_kv * bytes_per_element
    return {"flops": 4 * heads * seq_q * seq_kv * head_dim, "hbm_bytes": q_bytes + k_bytes + v_bytes + o_bytes, "score_bytes": score_bytes}
