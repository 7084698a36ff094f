# flashdojo: exercise=s1-softmax check=s1-softmax.dim misconception=max-over-everything
# idea: The maximum that is subtracted is always that of the last axis, whatever dim is asked for.
import torch


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    half = x.dtype in (torch.float16, torch.bfloat16)
    z = x.float() if half else x
    # for numerical stability
    row_max, _ = torch.max(z, -1, keepdim=True)
    num = (z - row_max).exp()
    den = num.sum(dim=dim, keepdim=True)
    out = num / den
    return out.to(x.dtype) if half else out
