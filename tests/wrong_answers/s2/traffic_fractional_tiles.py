# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-fraction
"""seq_q / block_q without rounding up: the ragged tile reads only a part of K and V."""
def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    n_tiles = seq_q / block_q
    q_o = 2 * seq_q * head_dim
    k_v = n_tiles * 2 * seq_kv * head_dim
    heads = batch * num_heads
    return {"flops": 4 * heads * seq_q * seq_kv * head_dim, "hbm_bytes": heads * (bytes_per_element * (q_o + k_v) + 4 * seq_q)}
