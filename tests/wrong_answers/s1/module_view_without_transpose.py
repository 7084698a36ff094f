# flashdojo: exercise=s1-module check=s1-module.heads misconception=heads-split
"""view(B, H, N, d) straight from [B, N, D]: heads and tokens are mixed."""
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
        Q = self.q_proj(x).view(B, self.num_heads, N, self.head_dim)
        K = self.k_proj(x).view(B, self.num_heads, N, self.head_dim)
        V = self.v_proj(x).view(B, self.num_heads, N, self.head_dim)
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.head_dim)
        attn_weights = torch.softmax(scores, dim=-1)
        output = (attn_weights @ V).transpose(1, 2).reshape(B, N, D)
        return self.out_proj(output)
