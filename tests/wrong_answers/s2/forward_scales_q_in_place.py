# flashdojo: exercise=s2-forward check=s2-forward.inputs-unchanged misconception=input-modified
"""q is scaled once, in the caller's memory."""
import torch

INF = float("inf")


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, H, N, D = q.shape
    M = k.shape[2]
    G = H // k.shape[1]
    tau = scale if scale is not None else D ** -0.5
    t = torch.float64 if q.dtype == torch.float64 else torch.float32
    q.mul_(tau)
    O = torch.zeros(B, H, N, v.shape[3], dtype=t)
    l = torch.zeros(B, H, N, dtype=t)
    m = torch.full((B, H, N), -INF, dtype=t)
    seen = set(visible_tiles(N, M, block_q, block_kv, mask_mode, win_left, win_right))
    for j in range((M + block_kv - 1) // block_kv):
        ks = slice(j * block_kv, min(M, (j + 1) * block_kv))
        K = k[:, :, ks].to(t).repeat_interleave(G, 1)
        V = v[:, :, ks].to(t).repeat_interleave(G, 1)
        for i in range((N + block_q - 1) // block_q):
            if (i, j) not in seen:
                continue
            qs = slice(i * block_q, min(N, (i + 1) * block_q))
            S = torch.matmul(q[:, :, qs].to(t), K.mT)
            if mask_mode:
                d = torch.arange(ks.start, ks.stop)[None] - torch.arange(qs.start, qs.stop)[:, None] - (M - N)
                hi = 0 if mask_mode == 3 else win_right
                lo = -1 if mask_mode == 3 else win_left
                if hi >= 0:
                    S.masked_fill_(d > hi, -INF)
                if lo >= 0:
                    S.masked_fill_(d < -lo, -INF)
            mt = S.amax(-1)
            P = torch.exp(S - mt.nan_to_num(neginf=0.0)[..., None])
            lt = P.sum(-1)
            mn = torch.maximum(m[:, :, qs], mt)
            ref = mn.nan_to_num(neginf=0.0)
            a = torch.exp(m[:, :, qs] - ref) * l[:, :, qs]
            b = torch.exp(mt - ref)
            ln = a + b * lt
            O[:, :, qs] = (a[..., None] * O[:, :, qs] + b[..., None] * (P @ V)) / ln.masked_fill(ln == 0, 1.0)[..., None]
            m[:, :, qs], l[:, :, qs] = mn, ln
    lse = (m + l.log()).masked_fill(l == 0, INF)
    return O.to(q.dtype), lse.float()
