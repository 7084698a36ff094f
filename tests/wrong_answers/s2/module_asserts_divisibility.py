# flashdojo: exercise=s2-module check=s2-module.indivisible misconception=indivisible-exception
# idea: A hidden_dim that num_heads does not divide ends in an AssertionError, not in the ValueError of the contract.
import math

import torch
import torch.nn as nn


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256):
        super().__init__()
        assert hidden_dim % num_heads == 0, "hidden_dim has to be a multiple of num_heads"
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, D = x.shape
        heads = lambda t: t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
        Q, K, V = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        blocks = []
        for Qi in Q.split(self.block_size, dim=2):
            Qi = Qi / math.sqrt(self.head_dim)
            m = torch.full_like(Qi[..., :1], -math.inf)
            l = torch.zeros_like(m)
            o = torch.zeros_like(Qi)
            for Kj, Vj in zip(K.split(self.block_size, dim=2), V.split(self.block_size, dim=2)):
                m, l, o = online_softmax_update((m, l, o), Qi @ Kj.mT, Vj)
            blocks.append(o / l)
        merged = torch.cat(blocks, dim=2).transpose(1, 2).flatten(2)
        return self.out_proj(merged)
