# flashdojo: exercise=s2-update check=s2-update.masked-tile misconception=masked-tile
# idea: Hidden rows are taken care of only when every row is hidden; one hidden row among visible ones becomes nan.
import torch


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    new_max = torch.max(row_max, scores.max(-1, keepdim=True)[0])

    # nothing seen so far: leave the state as it is
    if (new_max == float("-inf")).all():
        return row_max.clone(), row_sum.clone(), acc.clone()

    base = new_max
    old = torch.exp(row_max - base)
    p = torch.exp(scores - base)
    return (
        new_max,
        old * row_sum + p.sum(-1, keepdim=True),
        old * acc + torch.einsum("...qk,...kd->...qd", p, values.to(p.dtype)),
    )
