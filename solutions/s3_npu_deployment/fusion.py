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
    # zh: 第 1 步：mask_mode 0、3、4 对应 sparse_mode 0、3、4；后两者要 atten_mask：bool，[2048, 2048]，True 表示遮住。
    # en: Step 1: mask_mode 0, 3, 4 are sparse_mode 0, 3, 4; the latter two want atten_mask, bool [2048, 2048], True
    # en: hides.
    # zh: 第 2 步：窗口用 pre_tockens、next_tockens 传（拼写如此），-1 换成 2147483647。
    # en: Step 2: the window goes into pre_tockens and next_tockens (spelt like this), -1 becoming 2147483647.
    # zh: 第 3 步：softmax_lse = 最大值 + log(和)；看不到 key 的行里，算子给的最大值是 -FLT_MAX，要换成 +inf。
    # en: Step 3: softmax_lse = maximum + log(sum); in rows that see no key the operator gives -FLT_MAX for the
    # en: maximum: put +inf there.
    ### BEGIN SOLUTION
    unbounded = 2147483647
    atten_mask = None
    if mask_mode:
        atten_mask = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1)
    window = {}
    if mask_mode == 4:
        window["pre_tockens"] = unbounded if win_left == -1 else win_left
        window["next_tockens"] = unbounded if win_right == -1 else win_right
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
    ### END SOLUTION
