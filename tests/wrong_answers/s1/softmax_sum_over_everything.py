# flashdojo: exercise=s1-softmax check=s1-softmax.values misconception=softmax-over-everything
"""Forgets that every row is its own distribution: the whole tensor sums to one."""
import torch


def softmax(x, dim=-1):
    e = torch.exp(x - torch.amax(x, dim=dim, keepdim=True))
    return e / e.sum()
