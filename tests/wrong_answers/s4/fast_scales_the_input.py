# flashdojo: exercise=s4-fast check=s4-fast.lengths misconception=input-modified
"""q is scaled in place."""

import math

import torch


def fast_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    batch, num_heads, seq_q, head_dim = q.shape
    group, seq_kv = num_heads // k.shape[1], k.shape[2]
    block_q, block_kv = 128, 512
    q = q.mul_(1 / math.sqrt(head_dim))
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
                    acc.mul_(rescale).addmm_(weights, v_head[j : j + block_kv])
                    row_max = new_max
                torch.div(acc, row_sum, out=attn_out[b, h, i : i + block_q])
    return attn_out
