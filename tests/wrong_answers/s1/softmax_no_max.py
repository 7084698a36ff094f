# flashdojo: exercise=s1-softmax check=s1-softmax.stable misconception=no-max-subtraction
"""The formula of the textbook, word for word: exp of a logit of 1000 is inf."""
import torch


def softmax(x, dim=-1):
    exps = torch.exp(x)
    return exps / torch.sum(exps, dim=dim, keepdim=True)
