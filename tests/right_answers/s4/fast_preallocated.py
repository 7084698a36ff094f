"""Buffers made once and written to with out=; the dataflow by waves, the products of dK before dQ."""
# flashdojo: exercise=s4-fast,s4-dataflow
import torch


def fast_attention(q, k, v):
    batch, n1, s1, d = q.shape
    n2, s2 = k.shape[1], k.shape[2]
    m, n = min(192, s1), min(384, s2)
    out = torch.empty(batch, n1, s1, d)
    scaled, scores, product = torch.empty(m, d), torch.empty(m * n), torch.empty(m, d)
    for b in range(batch):
        for h in range(n1):
            keys, values = k[b, h * n2 // n1], v[b, h * n2 // n1]
            for i in range(0, s1, m):
                rows = min(m, s1 - i)
                tile = torch.mul(q[b, h, i : i + rows], d**-0.5, out=scaled[:rows])
                acc = out[b, h, i : i + rows]
                for j in range(0, s2, n):
                    columns = min(n, s2 - j)
                    s = torch.mm(tile, keys[j : j + columns].t(), out=scores[: rows * columns].view(rows, columns))
                    top = s.amax(1, keepdim=True)
                    if j:
                        top = torch.maximum(top, old)
                    s.sub_(top).exp_()
                    if j:
                        shrink = old.sub_(top).exp_()
                        total.mul_(shrink).add_(s.sum(1, keepdim=True))
                        acc.mul_(shrink).add_(torch.mm(s, values[j : j + columns], out=product[:rows]))
                    else:
                        total = s.sum(1, keepdim=True)
                        torch.mm(s, values[j : j + columns], out=acc)
                    old = top
                acc.div_(total)
    return out


def backward_dataflow(tasks, template):
    bn2 = template == "BN2"
    ahead = 2 - bn2
    early = [[f"C2 {t}", f"C1 {t}"] for t in range(tasks)] + [[]] * ahead
    late = [[]] * ahead + [[f"C4 {t}", f"C3 {t}", f"C5 {t}"] for t in range(tasks)]
    cube = [step for pair in zip(early, late) for steps in pair for step in steps]
    vector = [f"V{n} {t}" for t in range(tasks) for n in ((2, 4, 1, 3, 6, 5) if bn2 else (2, 1, 3, 4))]
    return {
        unit: [(step.split()[0], int(step.split()[1])) for step in steps]
        for unit, steps in (("cube", cube), ("vector", vector))
    }
