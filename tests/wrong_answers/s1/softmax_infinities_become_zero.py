# flashdojo: exercise=s1-softmax check=s1-softmax.masked misconception=softmax-infinity
"""-inf looks like an accident: infinities are replaced by 0 before anything else."""
import torch


def softmax(x, dim=-1):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    wide = torch.where(torch.isinf(wide), 0.0, wide)
    e = torch.exp(wide - wide.max(dim=dim, keepdim=True).values)
    return (e / e.sum(dim=dim, keepdim=True)).to(x.dtype)
