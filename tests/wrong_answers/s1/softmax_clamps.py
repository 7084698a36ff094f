# flashdojo: exercise=s1-softmax check=s1-softmax.stable misconception=no-max-subtraction
"""Keeps exp from overflowing by clipping the logits, which makes all large ones equal."""
import torch


def softmax(x, dim=-1):
    x = torch.clamp(x, -50.0, 50.0)
    e = torch.exp(x)
    return e / e.sum(dim=dim, keepdim=True)
