# flashdojo: exercise=s2-forward check=s2-forward.causal misconception=causal-mask
# idea: Scores are masked only in tiles with i == j, as if the edges of the mask could cross no other tile.
import torch


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    b, n1, s1, d = q.shape
    n2, s2, dv = k.shape[1], k.shape[2], v.shape[3]
    g = n1 // n2
    acc_type = torch.promote_types(q.dtype, torch.float32)
    scale = d ** -0.5 if scale is None else scale

    Q = q.reshape(b, n2, g, s1, d)
    O = torch.zeros(b, n2, g, s1, dv, dtype=q.dtype, device=q.device)
    L = torch.full((b, n2, g, s1), float("inf"), dtype=torch.float32, device=q.device)

    todo = {}
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        todo.setdefault(i, []).append(j)

    for i in todo:
        r = slice(i * block_q, min(s1, i * block_q + block_q))
        qi = Q[:, :, :, r].to(acc_type)
        state = (
            qi.new_full(qi.shape[:-1] + (1,), float("-inf")),
            qi.new_zeros(qi.shape[:-1] + (1,)),
            qi.new_zeros(qi.shape[:-1] + (dv,)),
        )
        for j in todo[i]:
            c = slice(j * block_kv, min(s2, j * block_kv + block_kv))
            kj, vj = k[:, :, None, c].to(acc_type), v[:, :, None, c].to(acc_type)
            s = torch.einsum("bngqd,bngkd->bngqk", qi, kj.expand(-1, -1, g, -1, -1)) * scale
            if mask_mode != 0 and i == j:
                centre = torch.arange(r.start, r.stop, device=q.device).unsqueeze(1) + (s2 - s1)
                cols = torch.arange(c.start, c.stop, device=q.device).unsqueeze(0)
                hidden = torch.zeros(len(centre), cols.shape[1], dtype=torch.bool, device=q.device)
                if mask_mode == 3:
                    hidden |= cols > centre
                else:
                    if win_right != -1:
                        hidden |= cols > centre + win_right
                    if win_left != -1:
                        hidden |= cols < centre - win_left
                s = s.masked_fill(hidden, float("-inf"))
            state = online_softmax_update(state, s, vj.expand(-1, -1, g, -1, -1))
        m, l, acc = state
        empty = l == 0
        l1 = l.masked_fill(empty, 1.0)
        O[:, :, :, r] = (acc / l1).to(q.dtype)
        L[:, :, :, r] = (m + l1.log()).masked_fill(empty, float("inf")).squeeze(-1).float()
    return O.reshape(b, n1, s1, dv), L.reshape(b, n1, s1)
