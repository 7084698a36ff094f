"""The tiling key of flash_attn_grad: its bit fields, which combinations have a binary, and what wrong ideas give.

Fields and combinations are those of FlashAttnGradTilingKey in ops-transformer (attention/flash_attn_grad, commit
421809ee). One is stricter here: upstream lets BN2 have d_align 128 with dv_align 192, which no plan produces, as
Dv <= D.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

Fields = dict[str, Any]

# name -> (lowest bit, bits, the value of each code)
TABLE: dict[str, tuple[int, int, tuple[Any, ...]]] = {
    "template": (0, 2, ("BN2GS1S2", "BN2")),
    "tnd": (2, 1, (False, True)),
    "mask_mode": (3, 2, (0, 3, 4)),
    "swizzle": (5, 1, (False, True)),
    "d_align": (6, 2, (64, 128, 192)),
    "dv_align": (8, 1, (128, 192)),
    "is_bn2_multiblk": (9, 1, (False, True)),
    "bn2_need_zero": (10, 1, (False, True)),
}
BITS = 11

# (misconception, combinations that it forgets to refuse); no key has a binary for which one of them holds
EXCLUDED: list[tuple[str, Callable[[Fields], bool]]] = [
    ("key-bn2-swizzle", lambda f: f["template"] == "BN2" and f["swizzle"]),
    ("key-bn2-tnd", lambda f: f["template"] == "BN2" and f["tnd"]),
    ("key-bn2-wide", lambda f: f["template"] == "BN2" and f["d_align"] == 192),
    ("key-multiblk", lambda f: f["template"] != "BN2" and f["is_bn2_multiblk"]),
    ("key-need-zero", lambda f: f["bn2_need_zero"] and not f["is_bn2_multiblk"]),
    ("key-need-zero", lambda f: f["bn2_need_zero"] and f["is_bn2_multiblk"] and f["mask_mode"] == 0),
    ("key-dv-wider", lambda f: f["dv_align"] == 192 and f["d_align"] != 192),
    ("key-wide", lambda f: f["d_align"] == 192 and f["tnd"] and f["template"] != "BN2"),
    ("key-wide", lambda f: f["d_align"] == 192 and f["swizzle"] and f["mask_mode"] != 0 and f["template"] != "BN2"),
]


def broken(fields: Fields) -> list[int]:
    """Which rows of :data:`EXCLUDED` hold; none for a combination that has a binary."""
    return [row for row, (_, excluded) in enumerate(EXCLUDED) if excluded(fields)]


def encode(fields: Fields) -> int:
    return sum(values.index(fields[name]) << low for name, (low, _, values) in TABLE.items())


def decode(key: int) -> Fields | None:
    """None where a code has no meaning or a bit above the fields is set."""
    fields = {}
    for name, (low, bits, values) in TABLE.items():
        code = key >> low & ((1 << bits) - 1)
        if code >= len(values):
            return None
        fields[name] = values[code]
    return fields if 0 <= key < 1 << BITS else None


def right(value: Fields | int) -> int | Fields | None:
    """What ``tiling_key(value)`` must return; None where it must raise ValueError."""
    if isinstance(value, int):
        fields = decode(value)
        return fields if fields is not None and not broken(fields) else None
    if any(value[name] not in values for name, (_, _, values) in TABLE.items()):
        return None
    return None if broken(value) else encode(value)


def combinations() -> list[Fields]:
    """Every combination of values that are in the table, with a binary or without."""
    choices = [values for _, _, values in TABLE.values()]
    return [dict(zip(TABLE, values, strict=True)) for values in product(*choices)]


def _mask_as_called(fields: Fields) -> int:
    return encode(fields | {"mask_mode": 0}) | fields["mask_mode"] << 3


def _packed(fields: Fields, join: Callable[[int, int], int]) -> int:
    """mask_mode one bit wide, as if three values needed no more: all that follows moves."""
    key, low = 0, 0
    for name, (_, bits, values) in TABLE.items():
        key = join(key, values.index(fields[name]) << low)
        low += 1 if name == "mask_mode" else bits
    return key


def _mirrored(fields: Fields) -> int:
    """The first field in the highest bits."""
    key = 0
    for name, (_, bits, values) in TABLE.items():
        key = key << bits | values.index(fields[name])
    return key


ENCODE_IDEAS: list[tuple[str, Callable[[Fields], Any]]] = [
    ("key-mask-as-called", _mask_as_called),
    ("key-d-align", lambda fields: encode(fields) + (1 << 6)),
    ("key-dv-align", lambda fields: encode(fields | {"dv_align": 128}) | (fields["dv_align"] // 64 - 1) << 8),
    ("key-bits", lambda fields: _packed(fields, operator.or_)),
    ("key-bits", lambda fields: _packed(fields, operator.add)),
    ("key-order", _mirrored),
]


def _with_host_mask(key: int) -> Any:
    fields = right(key)
    return fields if not isinstance(fields, Mapping) else dict(fields) | {"mask_mode": key >> 3 & 3}


DECODE_IDEAS: list[tuple[str, Callable[[int], Any]]] = [
    ("key-host-mask", _with_host_mask),
    ("key-bits-left", lambda key: right(key & ((1 << BITS) - 1))),
    ("key-bits-left", lambda key: right(key & ((1 << BITS) - 1)) if key < 1 << BITS else None),
]
