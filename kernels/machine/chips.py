"""The chips of Ascend: names, numbers, families, and which of them has which attention operator.

Cores and memory are those of CANN's platform files; the 32 GiB of the first generation and the 64 GiB of Ascend910B2C,
which the files leave out, are those of the cards. The ids are torch_npu's (csrc/core/npu/NpuVariables.h), where every
chip whose name begins with Ascend950 has the same one. Operators: the product tables of their documents.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

GIB = 1 << 30
DEFAULT = "950"  # the chip that is emulated unless another is asked for
BFLOAT16_SINCE = 220  # ids from here on compute in bfloat16

FAMILIES = {  # operator -> the families that have it
    "flash_attn": ("950",),
    "npu_fusion_attention": ("910B", "910_93", "950"),
}
RUNS_ON = {  # the same in words
    "flash_attn": "Ascend950",
    "npu_fusion_attention": "Ascend910B1 to B4, Ascend910_93 and Ascend950",
}
LIKE = {  # families by the beginnings of names, for chips newer than the table
    "950": re.compile("Ascend950"),
    "910_93": re.compile("Ascend910_93"),
    "910B": re.compile("Ascend910B[1-4]"),
}


@dataclass(frozen=True)
class Chip:
    """name as ``get_device_name`` of a real card gives it, id as ``get_soc_version``."""

    name: str
    id: int
    family: str  # "910", "310P", "910B", "310B", "910_93", "950"

    @property
    def bfloat16(self) -> bool:
        return self.id >= BFLOAT16_SINCE


@dataclass(frozen=True)
class Soc(Chip):
    """A chip that can be emulated; memory in bytes."""

    cube_core_num: int
    vector_core_num: int
    memory: int


# (name, id, family, cube cores, vector cores, GiB)
_ROWS: list[tuple[str, int, str, int, int, int]] = [
    ("Ascend910PremiumA", 100, "910", 32, 0, 32),
    ("Ascend910ProA", 101, "910", 32, 0, 32),
    ("Ascend910A", 102, "910", 32, 0, 32),
    ("Ascend910ProB", 103, "910", 30, 0, 32),
    ("Ascend910B", 104, "910", 30, 0, 32),
    ("Ascend910B1", 220, "910B", 24, 48, 64),
    ("Ascend910B2", 221, "910B", 24, 48, 64),
    ("Ascend910B2C", 222, "910B", 24, 48, 64),
    ("Ascend910B3", 223, "910B", 20, 40, 64),
    ("Ascend910B4", 224, "910B", 20, 40, 32),
    ("Ascend910B4-1", 225, "910B", 20, 40, 32),
    ("Ascend910_9391", 250, "910_93", 24, 48, 64),
    ("Ascend910_9392", 251, "910_93", 24, 48, 64),
    ("Ascend910_9381", 252, "910_93", 24, 48, 64),
    ("Ascend910_9382", 253, "910_93", 24, 48, 64),
    ("Ascend910_9372", 254, "910_93", 20, 40, 64),
    ("Ascend910_9362", 255, "910_93", 20, 40, 64),
    ("Ascend910_9363", 256, "910_93", 20, 40, 32),
    ("Ascend950PR_950z", 260, "950", 4, 8, 24),
    ("Ascend950PR_9579", 260, "950", 28, 56, 128),
    ("Ascend950PR_957b", 260, "950", 28, 56, 112),
    ("Ascend950PR_957c", 260, "950", 28, 56, 84),
    ("Ascend950PR_957d", 260, "950", 28, 56, 96),
    ("Ascend950PR_9589", 260, "950", 32, 64, 128),
    ("Ascend950PR_958b", 260, "950", 32, 64, 112),
    ("Ascend950PR_9599", 260, "950", 36, 72, 128),
    ("Ascend950DT_9571", 260, "950", 28, 56, 144),
    ("Ascend950DT_9572", 260, "950", 28, 56, 96),
    ("Ascend950DT_9581", 260, "950", 32, 64, 144),
    ("Ascend950DT_9582", 260, "950", 32, 64, 96),
    ("Ascend950DT_9591", 260, "950", 36, 72, 144),
    ("Ascend950DT_9592", 260, "950", 36, 72, 96),
    ("Ascend950DT_95A1", 260, "950", 36, 72, 144),
    ("Ascend950DT_95A2", 260, "950", 36, 72, 96),
]
SOCS = {row[0]: Soc(*row[:5], memory=row[5] * GIB) for row in _ROWS}
_INFERENCE = [Chip(f"Ascend310P{n}", 200 + i, "310P") for i, n in enumerate((1, 2, 3, 4, 5, 7))]
_EDGE = [Chip(f"Ascend310B{n}", 240 + i, "310B") for i, n in enumerate((1, 2, 3, 4))]
CHIPS: dict[str, Chip] = {chip.name: chip for chip in (*SOCS.values(), *_INFERENCE, *_EDGE)}
BY_FAMILY = {  # of a name for several chips: the one that is meant, in kernels.perf too (a test compares them)
    "950": "Ascend950PR_9589",  # of the published measurements and of stage 4's cases: 32 cores
    "950pr": "Ascend950PR_9589",
    "950dt": "Ascend950DT_9581",
    "910_93": "Ascend910_9391",
    "a2": "Ascend910B1",
    "a3": "Ascend910_9391",
}


def find_soc(name: str) -> Soc:
    """A chip by its name, in any case, with or without "Ascend"; 950, 950PR, 950DT and 910_93 stand for one of theirs.

    Raises ValueError, with the names that are known. "Ascend910B" is a chip of the first generation, and "910B" alone
    is refused: what is called so today are Ascend910B1 to Ascend910B4.
    """
    wanted = name.strip().lower()
    short = wanted.removeprefix("ascend")
    if wanted == "910b":
        raise ValueError(
            f"SoC {name!r} may mean two things: write Ascend910B1, B2, B3 or B4 for an Atlas A2, the 910B of today, or "
            "Ascend910B for the chip of the first generation that has this name."
        )
    found = SOCS.get(BY_FAMILY.get(short, "")) or _BY_SHORT_NAME.get(short)
    if found is None:
        close = difflib.get_close_matches(wanted, [soc.lower() for soc in SOCS], n=3, cutoff=0.7)
        near = f" Did you mean {' or '.join(soc for soc in SOCS if soc.lower() in close)}?" if close else ""
        if name in CHIPS or short.startswith("310"):
            near = " Chips of the 310 series have no FlashAttention operator and are not emulated."
        raise ValueError(
            f"{name!r} is no SoC that can be emulated.{near} FLASHDOJO_SOC takes {', '.join(BY_FAMILY)} or a full name "
            f"such as Ascend910B3 ({len(SOCS)} of them: kernels/machine/chips.py)."
        )
    return found


_BY_SHORT_NAME = {soc.name.lower().removeprefix("ascend"): soc for soc in SOCS.values()}


def family_of(name: str) -> str | None:
    """The family of a chip by what get_device_name says; None for what is no chip of Ascend's.

    Ascend910B without a digit is of the first generation, whose family is "910".
    """
    chip = CHIPS.get(name.partition(" ")[0])
    return chip.family if chip else next((family for family, like in LIKE.items() if like.match(name)), None)


def has(operator: str, family: str | None) -> bool:
    """Whether chips of this family have the operator, a key of FAMILIES."""
    return family in FAMILIES[operator]


def kind_of(name: str) -> str | None:
    """Which operator the course uses on a chip: "950" flash_attn, "910B" npu_fusion_attention, None: it has neither."""
    family = family_of(name)
    return "950" if has("flash_attn", family) else "910B" if has("npu_fusion_attention", family) else None


def names_of(family: str) -> tuple[str, ...]:
    """The chips of a family, in the order of their ids."""
    return tuple(chip.name for chip in CHIPS.values() if chip.family == family)


def no_flash_attn(name: str) -> str:
    """How flash_attn is refused on another chip."""
    return (
        f"{name} has no such operator, only Ascend 950PR and 950DT have it. On Atlas A2 and A3 (910B, 910_93) "
        "use torch_npu.npu_fusion_attention"
    )
