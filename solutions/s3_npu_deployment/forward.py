import functools

import cann_ops_transformer
import torch


@functools.cache  # 4 MiB that never change: made once for each device
def mask_template(device: torch.device) -> torch.Tensor:
    """The attn_mask of mask_mode 3 and 4, whatever the lengths: int8 [2048, 2048], 1 = hidden, above the diagonal."""
    ### BEGIN SOLUTION
    return torch.ones(2048, 2048, dtype=torch.int8, device=device).triu(1)
    ### END SOLUTION


def npu_flash_attention(
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
    """Attention by the operators flash_attn_metadata and flash_attn of the Ascend 950.

    q [B, S1, N1, D], k and v [B, S2, N2, D] for layout "BSND"; q [B, N1, S1, D], k and v [B, N2, S2, D] for "BNSD".
    float16 or bfloat16, on the NPU, any strides. mask_mode 0 none, 3 causal, 4 window, as in stage 2.
    Returns attn_out (q's shape, layout and dtype) and softmax_lse [B, N1, S1] float32 in both layouts.
    """
    # zh: 第 1 步：按 layout 读出 B、S1、N1、D 与 S2、N2。
    # en: Step 1: read B, S1, N1, D and S2, N2 according to the layout.
    # zh: 第 2 步：mask_mode 3、4 需要 attn_mask，即 mask_template(q.device)；mask_mode 0 不许传。
    # en: Step 2: mask_mode 3 and 4 want attn_mask, which is mask_template(q.device); mask_mode 0 must not get one.
    # zh: 第 3 步：flash_attn_metadata：头数、D、batch_size、长度、掩码与布局，都和主算子一致。
    # en: Step 3: flash_attn_metadata: heads, D, batch_size, lengths, mask and layouts, all as for the operator itself.
    # zh: 第 4 步：flash_attn：k、v 要连续；softmax_scale 要显式传；return_softmax_lse=True 才有 lse。全部用关键字传参。
    # en: Step 4: flash_attn: k and v contiguous, softmax_scale passed explicitly, return_softmax_lse=True for the lse.
    # en: Pass everything after v by keyword.
    ### BEGIN SOLUTION
    if layout == "BSND":
        (B, S1, N1, D), (_, S2, N2, _) = q.shape, k.shape
    else:
        (B, N1, S1, D), (_, N2, S2, _) = q.shape, k.shape
    shared = {
        "mask_mode": mask_mode,
        "win_left": win_left,
        "win_right": win_right,
        "max_seqlen_q": S1,
        "max_seqlen_kv": S2,
        "layout_q": layout,
        "layout_kv": layout,
        "layout_out": layout,
    }
    metadata = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=B, **shared)
    return cann_ops_transformer.flash_attn(
        q,
        k.contiguous(),
        v.contiguous(),
        attn_mask=mask_template(q.device) if mask_mode else None,
        metadata=metadata,
        softmax_scale=scale,
        return_softmax_lse=True,
        **shared,
    )
    ### END SOLUTION
