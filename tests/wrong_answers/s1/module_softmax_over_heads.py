# flashdojo: exercise=s1-module check=s1-module.values misconception=softmax-over-heads
"""softmax(dim=1) of [B, H, N, N]: heads compete instead of keys."""
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
        qkv = torch.stack([self.q_proj(x), self.k_proj(x), self.v_proj(x)])
        Q, K, V = qkv.view(3, B, N, self.num_heads, self.head_dim).transpose(2, 3)
        scores = Q @ K.transpose(-1, -2) / math.sqrt(self.head_dim)
        out = torch.softmax(scores, dim=1) @ V
        return self.out_proj(out.transpose(1, 2).reshape(B, N, D))
