# flashdojo: exercise=s1-attention check=s1-attention.stable misconception=no-max-subtraction
"""Own softmax without the maximum."""
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, H, Lq, D = q.shape
    Lk = k.shape[2]
    scale = D ** -0.5 if scale is None else scale
    n = H // k.shape[1]
    k = k[:, :, None].expand(B, k.shape[1], n, Lk, D).reshape(B, H, Lk, D)
    v = v[:, :, None].expand(B, v.shape[1], n, Lk, v.shape[-1]).reshape(B, H, Lk, v.shape[-1])
    e = torch.exp(torch.matmul(q, k.transpose(2, 3)) * scale)
    if causal:
        e = e * torch.ones(Lq, Lk).tril(Lk - Lq)
    z = e.sum(-1, keepdim=True)
    z[z == 0] = 1
    return torch.matmul(e / z, v)
