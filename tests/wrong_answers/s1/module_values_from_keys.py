# flashdojo: exercise=s1-module check=s1-module.values misconception=projection-reused
"""Copied a line and forgot to change it: V comes from k_proj."""
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
        H, d = self.num_heads, self.head_dim
        q = self.q_proj(x).reshape(B, N, H, d).permute(0, 2, 1, 3)
        k = self.k_proj(x).reshape(B, N, H, d).permute(0, 2, 1, 3)
        v = self.k_proj(x).reshape(B, N, H, d).permute(0, 2, 1, 3)
        out = torch.softmax(q.matmul(k.transpose(2, 3)) * d ** -0.5, dim=-1).matmul(v)
        return self.out_proj(out.permute(0, 2, 1, 3).reshape(B, N, D))
