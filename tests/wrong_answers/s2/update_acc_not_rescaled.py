# flashdojo: exercise=s2-update check=s2-update.values misconception=acc-not-rescaled
"""The running sum follows the new maximum, the accumulator does not."""
import torch


def online_softmax_update(state, scores, values):
    m, l, acc = state
    m_new = torch.maximum(m, scores.max(dim=-1, keepdim=True).values)
    ref = torch.where(torch.isinf(m_new), torch.zeros_like(m_new), m_new)
    p = torch.exp(scores - ref)
    alpha = torch.exp(m - ref)
    l = l * alpha + p.sum(dim=-1, keepdim=True)
    acc = acc + p @ values
    return m_new, l, acc
