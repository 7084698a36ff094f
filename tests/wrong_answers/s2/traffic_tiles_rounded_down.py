# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-floor
"""seq_q // block_q."""
def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    heads, e = batch * num_heads, bytes_per_element
    loads_kv = (seq_q // block_q) * 2 * seq_kv * head_dim * e
    return dict(flops=4 * heads * seq_q * seq_kv * head_dim, hbm_bytes=heads * (2 * seq_q * head_dim * e + loads_kv + 4 * seq_q))
