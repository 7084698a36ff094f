import math

import torch


def online_softmax_update(
    state: tuple[torch.Tensor, torch.Tensor, torch.Tensor], scores: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take one more tile of keys into a softmax that is under way. Returns a new state, changes none of its inputs.

    state = (row_max [..., Q, 1], row_sum [..., Q, 1], acc [..., Q, Dv]); it starts as (-inf, 0, 0).
    row_sum = sum of exp(score - row_max) and acc = sum of exp(score - row_max) * value over the keys seen so far.
    scores [..., Q, K]: already scaled, -inf where hidden. values [..., K, Dv].
    """
    row_max, row_sum, acc = state
    # zh: 第 1 步：新的行最大值 = 旧最大值与本块最大值中较大的一个。
    # en: Step 1: the new row maximum is the larger of the old one and this tile's.
    # zh: 第 2 步：旧的 row_sum 和 acc 是相对旧最大值算的，乘以 exp(旧 - 新) 换到新的基准上。
    # en: Step 2: the old row_sum and acc were measured from the old maximum: multiply them by exp(old - new).
    # zh: 第 3 步：加上本块的 exp(score - 新最大值) 之和，以及它与 values 的乘积。
    # en: Step 3: add this tile's exp(score - new), summed, and its product with the values.
    # zh: 小心：一行到现在都被遮住时，新旧最大值都是 -inf，而 (-inf) - (-inf) 是 nan。这样的行应保持 (-inf, 0, 0)。
    # en: Careful: as long as all of a row is hidden both maxima are -inf, and (-inf) - (-inf) is nan.
    # en:          Such a row has to stay (-inf, 0, 0).
    ### BEGIN SOLUTION
    new_max = torch.maximum(row_max, scores.amax(dim=-1, keepdim=True))
    base = new_max.masked_fill(new_max == -math.inf, 0.0)  # exp(-inf - 0) = 0, never nan
    rescale = torch.exp(row_max - base)
    exps = torch.exp(scores - base)
    return (
        new_max,
        row_sum * rescale + exps.sum(dim=-1, keepdim=True),
        acc * rescale + exps @ values.to(exps.dtype),
    )
    ### END SOLUTION
