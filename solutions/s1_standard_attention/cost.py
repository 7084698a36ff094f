def attention_cost(
    batch: int, num_heads: int, seq_q: int, seq_kv: int, head_dim: int, bytes_per_element: int
) -> dict[str, int]:
    """What standard attention computes and moves, as {"flops", "hbm_bytes", "score_bytes"}.

    flops: the two matrix products, two per multiply-add (softmax is not counted).
    hbm_bytes: Q, K, V read once, the output written once, scores and weights each written once and read once.
    score_bytes: the size of the score matrices of all heads.
    """
    # zh: 第 1 步：Q K^T 是 [S1, D] x [D, S2]，P V 是 [S1, S2] x [S2, D]，每次乘加算 2 次运算。
    # en: Step 1: Q K^T is [S1, D] x [D, S2], P V is [S1, S2] x [S2, D]; a multiply-add counts as 2.
    # zh: 第 2 步：数一数有哪些张量进出显存（HBM），各有多少个元素，搬运几次。
    # en: Step 2: list the tensors that cross to device memory (HBM), their elements, and how often each one does.
    ### BEGIN SOLUTION
    heads = batch * num_heads
    scores = seq_q * seq_kv
    moved = 2 * seq_q * head_dim + 2 * seq_kv * head_dim + 4 * scores  # Q and O, K and V, then S and P twice each
    return {
        "flops": 4 * heads * scores * head_dim,
        "hbm_bytes": bytes_per_element * heads * moved,
        "score_bytes": bytes_per_element * heads * scores,
    }
    ### END SOLUTION
