# flashdojo: exercise=s1-cost check=s1-cost.hbm-bytes misconception=bytes-scores
# idea: The softmax is thought to work in place on chip: scores are written once and weights read once, two crossings instead of four.
def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    n = batch * num_heads

    flops = 0
    flops += 2 * seq_q * seq_kv * head_dim  # Q @ K^T
    flops += 2 * seq_q * head_dim * seq_kv  # P @ V

    read = seq_q * head_dim + 2 * seq_kv * head_dim
    read += seq_q * seq_kv
    write = seq_q * head_dim
    write += seq_q * seq_kv

    return dict(
        flops=n * flops,
        hbm_bytes=n * (read + write) * bytes_per_element,
        score_bytes=n * seq_q * seq_kv * bytes_per_element,
    )
