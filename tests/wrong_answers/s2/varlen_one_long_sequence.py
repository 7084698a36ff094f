# flashdojo: exercise=s2-varlen check=s2-varlen.values misconception=varlen-sequences-mixed
"""The packed tokens attend to each other across sequence borders."""
def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (q, k, v))
    out, lse = flash_attention_forward(q, k, v, scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
    return out[0].transpose(0, 1), lse[0]
