# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-lse-missing
"""softmax_lse is written to memory as well."""
import math


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    B, N, S1, S2, D, e = batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element
    hbm = e * B * N * (2 * S1 * D + math.ceil(S1 / block_q) * 2 * S2 * D)
    return {"flops": 4 * B * N * S1 * S2 * D, "hbm_bytes": hbm}
