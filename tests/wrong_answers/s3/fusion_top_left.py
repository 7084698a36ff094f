# flashdojo: exercise=s3-fusion check=s3-fusion.alignment misconception=causal-top-left
"""Causal is taken to be sparse_mode 2."""
import torch
import torch_npu


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    heads = q.shape[layout.index("N")]
    options = {"scale": scale, "sparse_mode": 2 if mask_mode == 3 else mask_mode}
    if mask_mode:
        options["atten_mask"] = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1)
    if mask_mode == 4:
        options["pre_tockens"], options["next_tockens"] = 2147483647 if win_left < 0 else win_left, 2147483647 if win_right < 0 else win_right
    out, top, total = torch_npu.npu_fusion_attention(q, k, v, heads, layout, **options)[:3]
    top, total = top[..., 0], total[..., 0]
    lse = top + total.log()
    return out, torch.where(top > -1e30, lse, torch.inf)
