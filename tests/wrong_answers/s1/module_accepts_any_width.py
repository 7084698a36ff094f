# flashdojo: exercise=s1-module check=s1-module.indivisible misconception=indivisible-accepted
"""hidden_dim // num_heads rounds down and nobody notices."""
import torch
from torch import nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, _ = x.shape
        q, k, v = (f(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        w = torch.softmax(q @ k.transpose(-2, -1) * self.head_dim ** -0.5, dim=-1)
        return self.out_proj((w @ v).transpose(1, 2).reshape(B, N, self.hidden_dim))
