# flashdojo: exercise=s3-module check=s3-module.values misconception=module-stays-half
"""The whole module in half precision."""

import math

import torch
import torch.nn as nn


class NpuFlashAttention(nn.Module):
    """Multi-head self-attention on the NPU: the same parameters and result as StandardAttention, up to float16.

    x [B, N, hidden_dim] float32 -> the same shape and dtype. Parameters are float32; only the attention operator itself
    works in float16. block_size is accepted for the sake of the earlier modules: the operator chooses its own tiles.
    Raises ValueError when hidden_dim is not a multiple of num_heads.
    """

    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        q, k, v = (
            proj(x).view(B, N, self.num_heads, self.head_dim).half() for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        attn_out, _ = NpuFlashAttentionFunction.apply(q, k, v, 1 / math.sqrt(self.head_dim))
        return self.out_proj(attn_out.to(x.dtype).reshape(B, N, C))
