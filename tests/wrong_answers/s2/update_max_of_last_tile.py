# flashdojo: exercise=s2-update check=s2-update.values misconception=running-max-forgotten
# idea: The new row maximum is that of the newest tile alone; the old maximum is not compared with it.
import torch


def online_softmax_update(state, scores, values):
    m_old, l_old, o_old = state
    m_tile = scores.max(dim=-1, keepdim=True).values
    m_new = m_tile
    # avoid (-inf) - (-inf)
    safe = torch.where(torch.isinf(m_new), torch.zeros_like(m_new), m_new)
    corr = torch.exp(m_old - safe)
    p = torch.exp(scores - safe)
    l_new = corr * l_old + p.sum(-1, keepdim=True)
    o_new = corr * o_old + torch.matmul(p, values.to(p.dtype))
    return m_new, l_new, o_new
