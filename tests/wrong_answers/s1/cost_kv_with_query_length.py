# flashdojo: exercise=s1-cost check=s1-cost.hbm-bytes misconception=cost-square
# idea: K and V are counted with the query length, as if seq_kv always equalled seq_q.
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    bh = batch * num_heads
    qkvo = 4 * bh * seq_q * head_dim          # q, k, v, o
    s = bh * seq_q * seq_kv
    flops = 2 * s * head_dim + 2 * s * head_dim
    elements = qkvo + 2 * s + 2 * s           # scores out+in, weights out+in
    return {
        "flops": flops,
        "hbm_bytes": elements * bytes_per_element,
        "score_bytes": s * bytes_per_element,
    }
