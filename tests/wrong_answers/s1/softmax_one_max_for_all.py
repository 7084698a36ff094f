# flashdojo: exercise=s1-softmax check=s1-softmax.stable misconception=max-over-everything
"""Subtracts the largest number of the whole tensor: rows far below it underflow to 0 / 0."""
import torch


def softmax(x, dim=-1):
    shifted = x - x.max()
    numerator = shifted.exp()
    return numerator / numerator.sum(dim, keepdim=True)
