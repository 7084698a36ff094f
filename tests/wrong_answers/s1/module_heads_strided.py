# flashdojo: exercise=s1-module check=s1-module.heads misconception=heads-split
# idea: The channels are split as [head_dim, num_heads], so head h takes every num_heads-th channel, not a run of them.
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

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.head_dim, self.num_heads)

    def forward(self, x):
        q, k, v = map(self.split, (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        sim = torch.einsum("bidh,bjdh->bhij", q, k) * self.head_dim ** -0.5
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhij,bjdh->bidh", attn, v)
        return self.out_proj(out.reshape(x.shape))
