# flashdojo: exercise=s4-key check=s4-key.decode misconception=key-bits-left
"""Negative numbers pass for keys."""

def tiling_key(value: dict | int) -> int | dict:
    """The tiling key of flash_attn_grad from its fields (a dict), or the fields from a key (an int).

    Fields, all present: template "BN2GS1S2" or "BN2"; tnd bool; mask_mode 0, 3 or 4, as the operator is called; swizzle
    bool; d_align 64, 128 or 192; dv_align 128 or 192; is_bn2_multiblk bool; bn2_need_zero bool.
    bit  1:0  template         0 = BN2GS1S2, 1 = BN2, 2 not used, 3 reserved
    bit  2    tnd              1 = TND
    bit  4:3  mask_mode        0, 1, 2 for mask_mode 0, 3, 4
    bit  5    swizzle          BN2GS1S2 only
    bit  7:6  d_align          0 = 64, 1 = 128, 2 = 192
    bit  8    dv_align         0 = 128, 1 = 192; 192 only with d_align 192
    bit  9    is_bn2_multiblk  BN2 only
    bit 10    bn2_need_zero    only with is_bn2_multiblk and mask_mode 3 or 4
    BN2 takes neither TND nor d_align 192. d_align 192 takes no TND, and no swizzle together with mask_mode 3 or 4.
    Anything else (a value or a code that is not in the table, bits above 10, a combination that the rules exclude)
    raises ValueError, in both directions: there is no binary for it.
    """
    table = (
        ("template", 0, ("BN2GS1S2", "BN2")),
        ("tnd", 2, (False, True)),
        ("mask_mode", 3, (0, 3, 4)),
        ("swizzle", 5, (False, True)),
        ("d_align", 6, (64, 128, 192)),
        ("dv_align", 8, (128, 192)),
        ("is_bn2_multiblk", 9, (False, True)),
        ("bn2_need_zero", 10, (False, True)),
    )
    if isinstance(value, dict):
        fields = value
        answer = sum(values.index(fields[name]) << shift for name, shift, values in table)
    else:
        if not value < 1 << 11:
            raise ValueError(f"{value} has bits above 10")
        fields, widths = {}, {"template": 2, "mask_mode": 2, "d_align": 2}
        for name, shift, values in table:
            code = value >> shift & (1 << widths.get(name, 1)) - 1
            if code >= len(values):
                raise ValueError(f"{name} has no code {code}")
            fields[name] = values[code]
        answer = fields
    bn2, multiblk, mask = fields["template"] == "BN2", fields["is_bn2_multiblk"], fields["mask_mode"] != 0
    wide = fields["d_align"] == 192
    if bn2 and (fields["swizzle"] or fields["tnd"] or wide):
        raise ValueError("BN2 takes no swizzle, no TND, no head dim of 192")
    if (multiblk and not bn2) or (fields["bn2_need_zero"] and not (multiblk and mask)):
        raise ValueError("is_bn2_multiblk is for BN2, bn2_need_zero for MultiBlk with a mask")
    if fields["dv_align"] == 192 and not wide:
        raise ValueError("dv_align 192 needs d_align 192")
    if wide and (fields["tnd"] or (fields["swizzle"] and mask)):
        raise ValueError("d_align 192 takes no TND, and no swizzle with a mask")
    return answer
