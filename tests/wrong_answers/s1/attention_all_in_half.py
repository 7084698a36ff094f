# flashdojo: exercise=s1-attention check=? misconception=?
"""float16 all the way through: large logits overflow at 65504 and sums lose digits."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    g = q.shape[1] // k.shape[1]
    out = torch.zeros(q.shape[0], q.shape[1], q.shape[2], v.shape[3], dtype=q.dtype)
    for h in range(q.shape[1]):
        s = (q[:, h] @ k[:, h // g].transpose(-1, -2)) * scale
        if causal:
            s1, s2 = s.shape[-2:]
            s = s.masked_fill(torch.ones(s1, s2, dtype=torch.bool).triu(s2 - s1 + 1), -math.inf)
        e = torch.exp(s - s.amax(-1, keepdim=True).clamp(min=-6e4))
        total = torch.zeros_like(e[..., :1])
        acc = torch.zeros_like(out[:, h])
        for j in range(k.shape[2]):          # one key after the other, like the formula
            total = total + e[..., j : j + 1]
            acc = acc + e[..., j : j + 1] * v[:, h // g, j : j + 1]
        out[:, h] = acc / total.clamp(min=1e-4)
    return out
