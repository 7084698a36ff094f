# flashdojo: exercise=s1-softmax
"""The probabilities of a Categorical."""
import torch


def softmax(x, dim=-1):
    return torch.distributions.Categorical(logits=x.movedim(dim, -1), validate_args=False).probs.movedim(-1, dim)
