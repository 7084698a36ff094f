# flashdojo: exercise=s1-softmax check=s1-softmax.inputs misconception=float64-lost
"""Computes in float32, as it should, and forgets to go back to the input's dtype."""
import torch


def softmax(x, dim=-1):
    x = x.float()
    x = x - x.max(dim=dim, keepdim=True).values
    x = torch.exp(x)
    return x / x.sum(dim=dim, keepdim=True)
