# flashdojo: exercise=s1-module check=s1-module.heads misconception=scale-wrong-size
"""1/sqrt(hidden_dim) instead of 1/sqrt(head_dim)."""
import math
import torch
import torch.nn as nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        heads = []
        Q, K, V = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        for q, k, v in zip(Q.chunk(self.num_heads, -1), K.chunk(self.num_heads, -1), V.chunk(self.num_heads, -1)):
            attn = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(D), dim=-1)
            heads.append(attn @ v)
        return self.out_proj(torch.cat(heads, dim=-1))
