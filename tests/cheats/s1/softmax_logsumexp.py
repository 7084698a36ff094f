# flashdojo: exercise=s1-softmax
"""exp(x - logsumexp(x))."""
import torch


def softmax(x, dim=-1):
    y = x.double()
    return torch.exp(y - torch.logsumexp(y, dim, keepdim=True)).to(x.dtype)
