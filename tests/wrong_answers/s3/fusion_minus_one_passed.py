# flashdojo: exercise=s3-fusion check=s3-fusion.window misconception=window-minus-one
"""-1 passed on as it is."""

import math

import torch
import torch_npu


def npu_fusion(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    mask_mode: int = 0,
    win_left: int = -1,
    win_right: int = -1,
    layout: str = "BSND",
) -> tuple[torch.Tensor, torch.Tensor]:
    """npu_flash_attention for the 910B: the same arguments and results, through torch_npu.npu_fusion_attention.

    The operator gives no softmax_lse but each row's maximum and sum: softmax_max, softmax_sum, float32
    [B, N1, S1, 8], the same value 8 times. A row that sees no key: attn_out 0, softmax_lse +inf.
    """
    unbounded = 2147483647
    atten_mask = None
    if mask_mode:
        atten_mask = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1)
    window = {}
    if mask_mode == 4:
        window["pre_tockens"] = win_left
        window["next_tockens"] = win_right
    attn_out, softmax_max, softmax_sum, *_ = torch_npu.npu_fusion_attention(
        q,
        k,
        v,
        q.shape[2] if layout == "BSND" else q.shape[1],
        layout,
        atten_mask=atten_mask,
        scale=scale,
        sparse_mode=mask_mode,
        **window,
    )
    row_max, row_sum = softmax_max[..., 0], softmax_sum[..., 0]
    unseen = row_max <= torch.finfo(torch.float32).min
    return attn_out, (row_max + torch.log(row_sum)).masked_fill(unseen, math.inf)
