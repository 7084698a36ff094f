# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-once
"""K and V read once in all: that would need them to fit on the chip."""
def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    n = batch * num_heads
    tensors = 2 * seq_q * head_dim + 2 * seq_kv * head_dim
    return {"flops": 4 * n * seq_q * seq_kv * head_dim, "hbm_bytes": n * tensors * bytes_per_element + 4 * n * seq_q}
