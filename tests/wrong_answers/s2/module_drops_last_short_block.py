# flashdojo: exercise=s2-module check=s2-module.tails misconception=tail-dropped
# idea: There are N // block_size blocks, rounded down, so what is left over at the end is neither computed nor attended to.
import torch
import torch.nn as nn


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("num_heads must divide hidden_dim")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        H, d, bs = self.num_heads, self.head_dim, self.block_size
        q = self.q_proj(x).reshape(B, N, H, d).permute(0, 2, 1, 3)
        k = self.k_proj(x).reshape(B, N, H, d).permute(0, 2, 1, 3)
        v = self.v_proj(x).reshape(B, N, H, d).permute(0, 2, 1, 3)

        num_blocks = N // bs
        out = torch.zeros_like(q)
        for i in range(num_blocks):
            qi = q[:, :, i * bs : (i + 1) * bs, :]
            acc = torch.zeros_like(qi)
            lse = torch.full_like(qi[..., :1], float("-inf"))
            for j in range(num_blocks):
                kj = k[:, :, j * bs : (j + 1) * bs, :]
                vj = v[:, :, j * bs : (j + 1) * bs, :]
                s = torch.einsum("bhqd,bhkd->bhqk", qi, kj) / d ** 0.5
                block_lse = torch.logsumexp(s, dim=-1, keepdim=True)
                new_lse = torch.logaddexp(lse, block_lse)
                acc = acc * torch.exp(lse - new_lse) + torch.exp(s - new_lse) @ vj
                lse = new_lse
            out[:, :, i * bs : (i + 1) * bs, :] = acc
        return self.out_proj(out.permute(0, 2, 1, 3).reshape(B, N, D))
