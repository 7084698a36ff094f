# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-after-softmax
# idea: The causal mask zeroes the weights after the softmax, and the rest is not normalised again.
import math

import torch


def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    orig_dtype = q.dtype
    if orig_dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()

    # bring K and V to the number of query heads
    rep = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(rep, dim=1)
    v = v.repeat_interleave(rep, dim=1)

    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    attn = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * scale, dim=-1)

    if causal:
        S1, S2 = attn.shape[-2:]
        mask = torch.tril(torch.ones(S1, S2, dtype=attn.dtype, device=attn.device), diagonal=S2 - S1)
        attn = attn * mask
    return torch.matmul(attn, v).to(orig_dtype)
