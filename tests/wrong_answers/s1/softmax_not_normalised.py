# flashdojo: exercise=s1-softmax check=s1-softmax.values misconception=not-normalised
"""Stops after the exponential."""
import torch


def softmax(x, dim=-1):
    biggest, _ = x.max(dim=dim, keepdim=True)
    return torch.exp(x - biggest)
