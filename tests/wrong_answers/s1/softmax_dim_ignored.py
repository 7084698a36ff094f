# flashdojo: exercise=s1-softmax check=s1-softmax.dim misconception=softmax-dim-ignored
"""Tested with the default dim only."""
import torch


def softmax(x, dim=-1):
    x_max = torch.max(x, dim=-1, keepdim=True).values
    e_x = torch.exp(x - x_max)
    return e_x / e_x.sum(dim=-1, keepdim=True)
