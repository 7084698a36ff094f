# flashdojo: exercise=s1-cost check=s1-cost.flops misconception=flops-half
"""Counts a multiply-add as one operation."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    qk = seq_q * seq_kv * head_dim
    pv = seq_q * seq_kv * head_dim
    io = 2 * seq_q * head_dim + 2 * seq_kv * head_dim + 4 * seq_q * seq_kv
    n = batch * num_heads
    return {"flops": n * (qk + pv), "hbm_bytes": n * io * bytes_per_element, "score_bytes": n * seq_q * seq_kv * bytes_per_element}
