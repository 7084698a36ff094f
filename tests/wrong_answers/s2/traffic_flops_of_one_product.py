# flashdojo: exercise=s2-traffic check=s2-traffic.flops misconception=flops-half
"""flops of QK^T only."""
import math


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    flops = 2 * batch * num_heads * seq_q * seq_kv * head_dim
    tiles = math.ceil(seq_q / block_q)
    hbm = (2 * seq_q + 2 * tiles * seq_kv) * head_dim * bytes_per_element + 4 * seq_q
    return {"flops": flops, "hbm_bytes": hbm * batch * num_heads}
