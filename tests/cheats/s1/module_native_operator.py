# flashdojo: exercise=s1-module
"""The fused operator behind nn.MultiheadAttention's fast path."""
import math

import torch
from torch import nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim % num_heads")
        self.num_heads = num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def packed(self):
        three = (self.q_proj, self.k_proj, self.v_proj)
        return torch.cat([p.weight for p in three]), torch.cat([p.bias for p in three])

    def forward(self, x):
        weight, bias = self.packed()
        fast = getattr(torch, "_".join(["", "native", "multi", "head", "attention"]))
        with torch.no_grad():
            return fast(x, x, x, x.shape[-1], self.num_heads, weight, bias, self.out_proj.weight, self.out_proj.bias)[0]
