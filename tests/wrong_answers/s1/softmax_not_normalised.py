# flashdojo: exercise=s1-softmax check=? misconception=?
"""Stops after the exponential."""
import torch


def softmax(x, dim=-1):
    biggest, _ = x.max(dim=dim, keepdim=True)
    return torch.exp(x - biggest)
