# flashdojo: exercise=s1-attention check=s1-attention.scale-zero misconception=scale-zero
# idea: "scale or default" takes a scale of 0.0 for "not given" and uses 1/sqrt(D).
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    b, n1, s1, d = q.shape
    n2, s2 = k.shape[1], k.shape[2]
    scale = scale or d ** -0.5

    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    qq = q.to(work).reshape(b, n2, n1 // n2, s1, d)
    kk = k.to(work)
    vv = v.to(work)

    att = torch.einsum("bhgid,bhjd->bhgij", qq, kk) * scale
    if causal:
        allowed = torch.ones(s1, s2, dtype=torch.bool, device=q.device).tril(s2 - s1)
        att = att.masked_fill(~allowed, float("-inf"))
    w = att.softmax(-1)
    w = torch.nan_to_num(w, nan=0.0)
    out = torch.einsum("bhgij,bhje->bhgie", w, vv)
    return out.reshape(b, n1, s1, v.shape[-1]).to(q.dtype)
