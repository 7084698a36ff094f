"""What a check finds wrong, and how it is said: the first fault as the real operator finds it, then the later ones.

The real operator stops at the first fault. Here the rest is listed as well, so that one run shows what to mend.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor

ALSO = 4  # how many later faults are worth reading at once


class Fault(NamedTuple):
    """argument: the name of the argument that is wrong. text: its value, the rule and, where it helps, the way out."""

    argument: str
    text: str


def refuse(operator: str, faults: Iterable[Fault]) -> None:
    """Raises RuntimeError when there is a fault. Of several faults of one argument only the first is told."""
    found: dict[str, str] = {}
    for fault in faults:
        found.setdefault(fault.argument, fault.text)
        if len(found) > ALSO:
            break
    if found:
        first, *later = found.values()
        raise RuntimeError("\n  also: ".join([f"{operator}: {first}", *later]))


def seen(x: Tensor) -> str:
    """A tensor as messages show it: float16 [2, 128, 8, 128]."""
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"


def one_device(tensors: dict[str, Tensor | None]) -> Iterable[Fault]:
    """A kernel reads one device's memory. Tensors by argument name; those that are not given are None."""
    given = {name: x.device for name, x in tensors.items() if x is not None}
    if len(set(given.values())) > 1:
        home = next(iter(given.values()))
        name, device = next((name, device) for name, device in given.items() if device != home)
        places = ", ".join(f"{name} on {device}" for name, device in given.items())
        yield Fault(name, f"{name} is on {device}: all tensors must be on one device ({places}). "
                          "Move it with .npu() or .to(device)")  # fmt: skip
