# flashdojo: exercise=s1-cost
"""nan, inf and strings instead of numbers."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    return {"flops": float("nan"), "hbm_bytes": float("inf"), "score_bytes": f"{bytes_per_element * batch * num_heads * seq_q * seq_kv}"}
