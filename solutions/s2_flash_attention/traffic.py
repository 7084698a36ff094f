def flash_traffic(
    batch: int,
    num_heads: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    block_q: int,
    block_kv: int,
    bytes_per_element: int,
) -> dict[str, int]:
    """What tiled attention (query tiles outside, key tiles inside, no mask) computes and moves: {"flops", "hbm_bytes"}.

    flops: the two matrix products, two per multiply-add, as for standard attention.
    hbm_bytes: Q read once, the output written once, K and V read once per query tile, softmax_lse (float32) written.
    """
    # zh: 第 1 步：有多少个查询块？最后一块可能不满，要向上取整。每个查询块都会把 K 和 V 完整读一遍。
    # en: Step 1: how many query tiles are there? The last may be short: round up. Each one reads all of K and V.
    # zh: 第 2 步：分数从不写回显存，多出来的只有 softmax_lse，每行 4 字节。block_kv 出现在公式里吗？
    # en: Step 2: scores never go back to memory; softmax_lse is all that is added, 4 bytes a row. Does block_kv appear?
    ### BEGIN SOLUTION
    heads = batch * num_heads
    query_tiles = (seq_q + block_q - 1) // block_q
    moved = 2 * seq_q * head_dim + query_tiles * 2 * seq_kv * head_dim  # Q and O once, K and V per query tile
    return {
        "flops": 4 * heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": bytes_per_element * heads * moved + 4 * heads * seq_q,
    }
    ### END SOLUTION
