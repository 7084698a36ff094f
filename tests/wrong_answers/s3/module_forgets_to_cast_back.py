# flashdojo: exercise=s3-module check=s3-module.values misconception=module-stays-half
"""The float16 result meets float32 weights."""
import torch
from torch import nn


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("num_heads has to divide hidden_dim")
        self.heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (projection(x).unflatten(-1, (self.heads, -1)).half() for projection in (self.q_proj, self.k_proj, self.v_proj))
        out, _ = NpuFlashAttentionFunction.apply(q, k, v, q.shape[-1] ** -0.5)
        return self.out_proj(out.flatten(2))
