# flashdojo: exercise=s2-traffic check=s2-traffic.hbm-bytes misconception=traffic-lse-size
# idea: softmax_lse is counted with bytes_per_element, although it is float32 (4 bytes) whatever the inputs are.
import math


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    per_head = 0
    per_head += seq_q * head_dim                                  # Q in
    per_head += math.ceil(seq_q / block_q) * seq_kv * head_dim * 2  # K, V in for each query tile
    per_head += seq_q * head_dim                                  # O out
    per_head += seq_q                                             # LSE out
    return {
        "flops": batch * num_heads * 4 * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * per_head * bytes_per_element,
    }
