# flashdojo: exercise=s1-module check=s1-module.heads misconception=heads-merge
"""[B, H, N, d] reshaped to [B, N, D] without turning heads and tokens back."""
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
        Q, K, V = [p(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)]
        scores = torch.einsum("bhqd,bhkd->bhqk", Q, K) / self.head_dim ** 0.5
        output = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), V)
        return self.out_proj(output.reshape(B, N, D))
