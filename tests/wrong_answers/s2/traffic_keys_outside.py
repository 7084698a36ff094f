# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-wrong-loop
"""The formula of the first paper's loop order: Q and O pass by once per key tile."""
import math


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    passes = math.ceil(seq_kv / block_kv)
    per_head = 2 * seq_kv * head_dim + passes * 2 * seq_q * head_dim
    return {
        "flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": bytes_per_element * batch * num_heads * per_head + 4 * batch * num_heads * seq_q,
    }
