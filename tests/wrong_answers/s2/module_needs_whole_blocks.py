# flashdojo: exercise=s2-module check=s2-module.tails misconception=tail-tiles
"""Reshapes into blocks, which fails when N is not a multiple of block_size."""
import math
import torch
import torch.nn as nn


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        bs = min(N, self.block_size)
        q, k, v = (p(x).view(B, N // bs, bs, self.num_heads, self.head_dim).permute(1, 0, 3, 2, 4) for p in (self.q_proj, self.k_proj, self.v_proj))
        rows = []
        for qi in q:
            state = (torch.full((*qi.shape[:-1], 1), -math.inf), torch.zeros(*qi.shape[:-1], 1), torch.zeros_like(qi))
            for kj, vj in zip(k, v):
                state = online_softmax_update(state, qi @ kj.mT * self.head_dim ** -0.5, vj)
            rows.append(state[2] / state[1])
        out = torch.cat(rows, dim=2)
        return self.out_proj(out.transpose(1, 2).reshape(B, N, D))
