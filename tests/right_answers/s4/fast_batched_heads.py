"""All heads at once in one batched product per tile; the tiling key by a chain of ifs; the plan over its faults."""
# flashdojo: exercise=s4-fast,s4-key
import torch


def fast_attention(q, k, v):
    b, n1, s1, d = q.shape
    n2, s2 = k.shape[1:3]
    group = n1 // n2
    q = (q / d**0.5).view(b, n2, group, s1, d) if q.is_contiguous() else (q / d**0.5).reshape(b, n2, group, s1, d)
    k, v = k.unsqueeze(2), v.unsqueeze(2)
    tiles = []
    for rows in q.split(128, dim=-2):
        top = torch.full((*rows.shape[:-1], 1), -torch.inf)
        total = torch.zeros_like(top)
        out = torch.zeros_like(rows)
        for keys, values in zip(k.split(256, dim=-2), v.split(256, dim=-2), strict=True):
            scores = rows @ keys.mT
            higher = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights = scores.sub_(higher).exp_()
            shrink = top.sub_(higher).exp_()
            total = total.mul_(shrink).add_(weights.sum(-1, keepdim=True))
            out = out.mul_(shrink).add_(weights @ values)
            top = higher
        tiles.append(out.div_(total))
    return torch.cat(tiles, dim=-2).reshape(b, n1, s1, d)


def tiling_key(value):
    if isinstance(value, dict):
        key = 0
        if value["template"] == "BN2":
            key += 1
        elif value["template"] != "BN2GS1S2":
            raise ValueError("template")
        key += 4 * value["tnd"]
        key += {0: 0, 3: 8, 4: 16}.get(value["mask_mode"], 5000)
        key += 32 * value["swizzle"]
        key += {64: 0, 128: 64, 192: 128}.get(value["d_align"], 5000)
        key += {128: 0, 192: 256}.get(value["dv_align"], 5000)
        key += 512 * value["is_bn2_multiblk"] + 1024 * value["bn2_need_zero"]
        tiling_key(key)
        return key
    if value < 0 or value > 2047 or value % 4 > 1 or value // 8 % 4 == 3 or value // 64 % 4 == 3:
        raise ValueError(value)
    bits = f"{value:011b}"[::-1]
    bn2, tnd, swizzle, wider, multi, zero = (bits[i] == "1" for i in (0, 2, 5, 8, 9, 10))
    mask, d = (0, 3, 4)[value // 8 % 4], (64, 128, 192)[value // 64 % 4]
    sound = not (swizzle or tnd or d == 192) if bn2 else not multi
    sound = sound and (not zero or (multi and mask > 0)) and (not wider or d == 192)
    if not sound or (d == 192 and (tnd or (swizzle and mask))):
        raise ValueError(value)
    return {
        "template": "BN2" if bn2 else "BN2GS1S2", "tnd": tnd, "mask_mode": mask, "swizzle": swizzle, "d_align": d,
        "dv_align": 192 if wider else 128, "is_bn2_multiblk": multi, "bn2_need_zero": zero,
    }  # fmt: skip
