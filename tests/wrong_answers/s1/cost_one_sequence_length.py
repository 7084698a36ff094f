# flashdojo: exercise=s1-cost check=s1-cost.flops,s1-cost.hbm-bytes,s1-cost.score-bytes misconception=cost-square
"""Uses seq_q for both lengths."""
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    N = seq_q
    cost = {}
    cost["flops"] = 4 * batch * num_heads * N ** 2 * head_dim
    cost["hbm_bytes"] = bytes_per_element * batch * num_heads * (4 * N * head_dim + 4 * N ** 2)
    cost["score_bytes"] = bytes_per_element * batch * num_heads * N ** 2
    return cost
