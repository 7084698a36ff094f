# flashdojo: exercise=s1-module check=s1-module.heads misconception=scale-wrong-size
# idea: The scores are divided by sqrt(hidden_dim) instead of sqrt(head_dim).
import math

import torch
from torch import nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        head_dim, rest = divmod(hidden_dim, num_heads)
        if rest:
            raise ValueError(f"{num_heads} heads do not divide {hidden_dim}")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, head_dim
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(hidden_dim, hidden_dim))

    def forward(self, x):
        B, N, D = x.shape
        outs = []
        Q, K, V = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        for h in range(self.num_heads):
            sl = slice(h * self.head_dim, (h + 1) * self.head_dim)
            w = torch.softmax(Q[..., sl] @ K[..., sl].mT / math.sqrt(D), dim=2)
            outs.append(w @ V[..., sl])
        return self.out_proj(torch.cat(outs, dim=-1))
