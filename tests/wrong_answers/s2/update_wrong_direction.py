# flashdojo: exercise=s2-update check=s2-update.values misconception=rescale-inverted
"""The correction is exp(new - old)."""
import torch


def online_softmax_update(state, scores, values):
    m_prev, l_prev, o_prev = state
    m_cur = torch.max(m_prev, scores.max(-1, keepdim=True)[0])
    safe = torch.where(m_cur == float("-inf"), torch.zeros_like(m_cur), m_cur)
    first = m_prev == float("-inf")
    corr = torch.where(first, torch.ones_like(safe), torch.exp(safe - torch.where(first, safe, m_prev)))
    p = torch.exp(scores - safe)
    return m_cur, corr * l_prev + p.sum(-1, keepdim=True), corr * o_prev + p @ values
