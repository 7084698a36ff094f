# flashdojo: exercise=s2-update check=s2-update.masked-tile misconception=masked-tile
"""-inf - (-inf): a tile that is wholly masked before anything was seen gives NaN."""
import torch


def online_softmax_update(state, scores, values):
    m, l, acc = state
    m_new = torch.maximum(m, scores.max(dim=-1, keepdim=True).values)
    p = torch.exp(scores - m_new)
    alpha = torch.exp(m - m_new)
    l_new = alpha * l + p.sum(dim=-1, keepdim=True)
    acc_new = alpha * acc + torch.matmul(p, values)
    return m_new, l_new, acc_new
