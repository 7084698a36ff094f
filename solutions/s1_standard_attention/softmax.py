import torch


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Normalised exponentials of x along dim. Shape and dtype of x are kept.

    No value of x, however large or small, may overflow: exp(1000.0) is inf, and inf / inf is nan.
    Sums of half precision input run in float32.
    """
    # zh: 第 1 步：求出 dim 方向上的最大值，保留这一维（keepdim=True），先从 x 中减去它。为什么这不会改变结果？
    # en: Step 1: find the maximum along dim (keepdim=True keeps that dimension) and subtract it from x.
    # en:         Why does that not change the result?
    # zh: 第 2 步：取指数，再除以指数之和。
    # en: Step 2: take exponentials and divide them by their sum.
    # zh: 第 3 步：x 是 float16 / bfloat16 时，中间计算用 float32，最后再转回 x 的 dtype。
    # en: Step 3: for float16 / bfloat16, compute in float32 and return the dtype of x.
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    exps = torch.exp(wide - wide.amax(dim, keepdim=True))
    return (exps / exps.sum(dim, keepdim=True)).to(x.dtype)
    ### END SOLUTION
