# flashdojo: exercise=s1-attention check=s1-attention.gqa misconception=gqa-interleaved
# idea: Query head h reads key/value head h % N2 (repeat), not h // (N1 // N2) (neighbours share).
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    S2, Dv = k.shape[2], v.shape[3]
    dt = torch.promote_types(q.dtype, torch.float32)
    copies = N1 // k.shape[1]

    Q = q.to(dt).reshape(B * N1, S1, D)
    K = k.to(dt).repeat(1, copies, 1, 1).reshape(B * N1, S2, D)
    V = v.to(dt).repeat(1, copies, 1, 1).reshape(B * N1, S2, Dv)

    S = torch.bmm(Q, K.transpose(1, 2))
    S *= (D ** -0.5 if scale is None else scale)
    if causal:
        hide = torch.ones(S1, S2, dtype=torch.bool, device=q.device).triu(1 + S2 - S1)
        S[:, hide] = float("-inf")
        P = torch.softmax(S, -1)
        P[:, hide] = 0  # also removes the nan of rows that see nothing
    else:
        P = torch.softmax(S, -1)
    return torch.bmm(P, V).reshape(B, N1, S1, Dv).to(q.dtype)
