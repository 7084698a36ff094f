# flashdojo: exercise=s1-softmax stage=s1
"""One operator that takes for ever."""
import torch


def softmax(x, dim=-1):
    big = torch.ones(4096, 4096)
    while True:
        big = big @ big
