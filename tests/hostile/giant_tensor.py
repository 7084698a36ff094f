# flashdojo: exercise=s1-softmax stage=s1
"""Returns a tensor of a gigabyte."""
import torch


def softmax(x, dim=-1):
    return torch.ones(1 << 28)
