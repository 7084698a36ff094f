import math

import torch


def merge_states(
    a: tuple[torch.Tensor, torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The state of the keys of a and of b together, when each was worked out alone (for instance on two cores).

    States are those of online_softmax_update. The merge is associative, and (-inf, 0, 0) changes nothing.
    """
    # zh: 两边的基准不同：先取共同的最大值，再把两边的 row_sum 和 acc 都换到这个基准上，然后相加。
    # en: The two sides have different bases: take the common maximum, bring both row_sum and acc to it, then add.
    # zh: 两边都还没有看到任何 key（都是 -inf）时，结果仍是 (-inf, 0, 0)，不能出现 nan。
    # en: When neither side has seen a key (both -inf) the result is (-inf, 0, 0) again, without nan.
    ### BEGIN SOLUTION
    max_a, sum_a, acc_a = a
    max_b, sum_b, acc_b = b
    row_max = torch.maximum(max_a, max_b)
    base = row_max.masked_fill(row_max == -math.inf, 0.0)
    rescale_a, rescale_b = torch.exp(max_a - base), torch.exp(max_b - base)
    return row_max, sum_a * rescale_a + sum_b * rescale_b, acc_a * rescale_a + acc_b * rescale_b
    ### END SOLUTION
