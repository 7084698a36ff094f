# flashdojo: exercise=s1-softmax
"""exp(log_softmax)."""
import torch.nn.functional as F


def softmax(x, dim=-1):
    return F.log_softmax(x, dim).exp()
