# flashdojo: exercise=s1-module check=s1-module.shape misconception=unstable-softmax
"""Weights start as N(0, 1) and softmax takes no maximum: fine for 8 channels, infinite for 768."""
import math
import torch
import torch.nn as nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)
        for proj in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.normal_(proj.weight)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = (f(x).view(B, N, self.num_heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        e = torch.exp(q @ k.transpose(-2, -1) / math.sqrt(self.head_dim))
        w = e / e.sum(dim=-1, keepdim=True)
        return self.out_proj((w @ v).transpose(1, 2).reshape(B, N, D))
