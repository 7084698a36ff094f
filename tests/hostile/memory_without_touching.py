# flashdojo: exercise=s1-softmax stage=s1
"""Asks for far more memory than there is, in one piece."""
import torch


def softmax(x, dim=-1):
    return torch.empty(1 << 44)
