# flashdojo: exercise=s4-key check=s4-key.refuses misconception=key-no-rules
"""Any combination has a key."""


def tiling_key(value: dict | int) -> int | dict:
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
        if not 0 <= value < 1 << 11:
            raise ValueError(f"{value} has bits above 10")
        fields, widths = {}, {"template": 2, "mask_mode": 2, "d_align": 2}
        for name, shift, values in table:
            code = value >> shift & (1 << widths.get(name, 1)) - 1
            if code >= len(values):
                raise ValueError(f"{name} has no code {code}")
            fields[name] = values[code]
        answer = fields
    return answer
