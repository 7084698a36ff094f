# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-lse-size
"""softmax_lse is float32 whatever the inputs are."""
import math


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    Tr = math.ceil(seq_q / block_q)
    elements = 2 * seq_q * head_dim + 2 * Tr * seq_kv * head_dim + seq_q
    return {"flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim, "hbm_bytes": batch * num_heads * elements * bytes_per_element}
