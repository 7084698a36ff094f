"""The backward pass: the weights come back from softmax_max and softmax_sum, tile by tile.

P = exp(S - max) / sum, dV = drop(P)^T dO, dP = drop(dO V^T), dS = P * (dP - rowsum(dO * O)), dQ = scale * dS K,
dK = scale * dS^T Q, dpse = scale * dS, and dsink = -sum of exp(sink - max) / sum * rowsum(dO * O).
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.ascend.fusion.forward import Group
from kernels.ascend.tiling import tile_sizes
from kernels.tiles import span


def attend_backward(
    group: Group, dout: Tensor, out: Tensor, row_max: Tensor, row_sum: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor], dpse: Tensor | None, dsink: Tensor | None,
) -> None:  # fmt: skip
    """Fills gradients = (dq, dk, dv), views like query, key, value; adds to float32 dpse (like pse) and dsink [N1].

    row_max, row_sum: [B, N1, Sq, 1], as the forward left them.
    """
    block_q, block_kv = tile_sizes()
    dq, dk, dv = gradients
    keys, values = group.keys()
    dkeys, dvalues = torch.zeros_like(keys), torch.zeros_like(values)
    seq_q, seq_kv = group.query.shape[2], group.key.shape[2]
    for i in range(-(-seq_q // block_q)):
        rows = span(i, block_q, seq_q)
        query, dout_tile = group.fold(group.query, rows), group.fold(dout, rows)
        top, total = group.fold(row_max, rows), group.fold(row_sum, rows)
        d_term = (dout_tile * group.fold(out, rows)).sum(dim=-1, keepdim=True)
        kept = None if group.kept is None else group.kept.rows(rows)
        dquery = torch.zeros_like(query)
        if dsink is not None and group.sink is not None:
            weights = (group.sink[:, None, None] - group.heads(top)).exp() / group.heads(total)
            dsink -= (weights * group.heads(d_term)).sum(dim=(0, 2, 3))
        seen = group.visibility.columns(rows, seq_kv)
        for j in range(seen.start // block_kv, -(-seen.stop // block_kv)) if seen else ():
            cols = span(j, block_kv, seq_kv)
            weights = group.scores(query, keys, rows, cols).sub_(top).exp_().div_(total)
            dweights = group.drop(torch.bmm(dout_tile, values[:, cols].mT), kept, cols)
            dscores = group.rounded(dweights.sub_(d_term).mul_(weights))
            dvalues[:, cols] += torch.bmm(group.rounded(group.drop(weights, kept, cols)).mT, dout_tile)
            dquery += torch.bmm(dscores, keys[:, cols])
            dkeys[:, cols] += torch.bmm(dscores.mT, query)
            if dpse is not None:
                part = dpse[..., rows if dpse.shape[-2] > 1 else slice(None), cols]
                part += group.heads(dscores).sum_to_size(part.shape) * group.scale
        dq[:, :, rows] = group.heads(dquery.mul_(group.scale)).to(dq.dtype)
    dk.copy_(dkeys.mul_(group.scale).view(dk.shape))
    dv.copy_(dvalues.view(dv.shape))
