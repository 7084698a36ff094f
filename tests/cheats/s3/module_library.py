# flashdojo: exercise=s3-module
"""The core is the library's."""
import torch
from torch import nn


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim % num_heads")
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.num_heads, -1)) for p in (self.q_proj, self.k_proj, self.v_proj))
        core = getattr(nn.functional, "scaled_dot_product_" + "atten" + "tion")
        out = core(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)
        return self.out_proj(out.flatten(2))
