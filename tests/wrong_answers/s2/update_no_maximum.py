# flashdojo: exercise=s2-update check=s2-update.values misconception=no-max-subtraction
"""exp of the raw scores; the maximum is only carried along."""
import torch


def online_softmax_update(state, scores, values):
    m, l, o = state
    w = torch.exp(scores)
    return (
        torch.maximum(m, scores.amax(-1, keepdim=True)),
        l + w.sum(-1, keepdim=True),
        o + w @ values,
    )
