import math

import torch


def fast_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention without a mask, scale 1/sqrt(D): the values of slow_attention in at most two thirds of its time.

    q [B, N1, S1, D], k and v [B, N2, S2, D], N1 a multiple of N2, S1 and S2 any length, float32, on the CPU. Returns
    a new tensor attn_out [B, N1, S1, D], float32; the inputs stay as they are. Time is compared on one thread.
    """
    # zh: 先量，再改，再量：时间花在哪几行？每一块要调用几次 PyTorch？哪些中间张量可以就地更新，哪些乘法可以少做？
    # en: Measure, change, measure again: which lines take the time? How many calls of PyTorch does one tile cost? Which
    # en: intermediates can be updated in place, and which multiplications need not be done for every tile?
    ### BEGIN SOLUTION
    batch, num_heads, seq_q, head_dim = q.shape
    group, seq_kv = num_heads // k.shape[1], k.shape[2]
    block_q, block_kv = 128, 512
    # zh: scale 乘在 Q 上：S1·D 次乘法，而不是 S1·S2 次。
    # en: The scale goes into Q: S1*D multiplications in place of S1*S2.
    q = q * (1 / math.sqrt(head_dim))
    attn_out = torch.empty_like(q)
    for b in range(batch):
        for h in range(num_heads):
            k_head, v_head = k[b, h // group].transpose(0, 1), v[b, h // group]
            for i in range(0, seq_q, block_q):
                q_tile = q[b, h, i : i + block_q]
                row_max = q_tile.new_full((len(q_tile), 1), -math.inf)
                row_sum = torch.zeros_like(row_max)
                acc = torch.zeros_like(q_tile)
                for j in range(0, seq_kv, block_kv):
                    scores = q_tile @ k_head[:, j : j + block_kv]
                    new_max = torch.maximum(row_max, scores.amax(dim=1, keepdim=True))
                    weights = scores.sub_(new_max).exp_()
                    rescale = row_max.sub_(new_max).exp_()
                    row_sum.mul_(rescale).add_(weights.sum(dim=1, keepdim=True))
                    # zh: 乘、再加矩阵乘积：一次调用，不产生中间张量。
                    # en: Multiply, then add a product: one call and no intermediate.
                    acc.mul_(rescale).addmm_(weights, v_head[j : j + block_kv])
                    row_max = new_max
                torch.div(acc, row_sum, out=attn_out[b, h, i : i + block_q])
    return attn_out
    ### END SOLUTION
