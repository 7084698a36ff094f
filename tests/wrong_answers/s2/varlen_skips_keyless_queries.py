# flashdojo: exercise=s2-varlen check=s2-varlen.empty misconception=varlen-empty-sequence
# idea: A sequence without keys is skipped before its rows are appended, so the output is too short and later rows move up.
import torch


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    len_q = (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).tolist()
    len_k = (cu_seqlens_kv[1:] - cu_seqlens_kv[:-1]).tolist()
    # empty starts, so that torch.cat works even when nothing is appended
    outs = [q.new_zeros(0, q.shape[1], v.shape[2])]
    lses = [torch.zeros(q.shape[1], 0, dtype=torch.float32, device=q.device)]

    for qs, ks, vs in zip(q.split(len_q), k.split(len_k), v.split(len_k)):
        if len(qs) == 0 or len(ks) == 0:
            continue
        o, l = flash_attention_forward(
            qs.transpose(0, 1).unsqueeze(0),
            ks.transpose(0, 1).unsqueeze(0),
            vs.transpose(0, 1).unsqueeze(0),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        outs.append(o.squeeze(0).transpose(0, 1))
        lses.append(l.squeeze(0))
    return torch.cat(outs, dim=0), torch.cat(lses, dim=1)
