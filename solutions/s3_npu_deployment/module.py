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
        # zh: 头数必须整除 hidden_dim；四个投影层 q_proj、k_proj、v_proj、out_proj，与前两阶段相同。
        # en: num_heads has to divide hidden_dim; the four projections q_proj, k_proj, v_proj, out_proj are those of
        # en: stages 1 and 2.
        ### BEGIN SOLUTION
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # zh: 投影得到的 [B, N, hidden_dim] 直接 view 成 [B, N, H, head_dim]，就是 BSND：不必转置。
        # zh: 转成 float16，调用 NpuFlashAttentionFunction.apply，再转回 x 的 dtype，合并多头，过 out_proj。
        # en: A projection gives [B, N, hidden_dim]; viewed as [B, N, H, head_dim] that is BSND, without a transpose.
        # en: Cast to float16, call NpuFlashAttentionFunction.apply, cast back to x's dtype, merge the heads, out_proj.
        ### BEGIN SOLUTION
        B, N, C = x.shape
        q, k, v = (
            proj(x).view(B, N, self.num_heads, self.head_dim).half() for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        attn_out, _ = NpuFlashAttentionFunction.apply(q, k, v, 1 / math.sqrt(self.head_dim))
        return self.out_proj(attn_out.to(x.dtype).reshape(B, N, C))
        ### END SOLUTION
