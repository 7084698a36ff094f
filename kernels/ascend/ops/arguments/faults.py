"""What a check finds wrong, and how it is said: the first fault as the real operator finds it, then the later ones.

The real operator stops at the first fault. Here the rest is listed as well, so that one run shows what to mend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torch import Tensor

TOLD = 5  # how many faults are worth reading at once


class Fault(NamedTuple):
    """argument: the name of the argument that is wrong. text: its value, the rule and, where it helps, the way out."""

    argument: str
    text: str


def refuse(operator: str, faults: Iterable[Fault]) -> None:
    """Raises RuntimeError when there is a fault. Of several faults of one argument only the first is told."""
    found: dict[str, str] = {}
    for fault in faults:
        found.setdefault(fault.argument, fault.text)
        if len(found) == TOLD:
            break
    if found:
        first, *later = found.values()
        raise RuntimeError("\n  also: ".join([f"{operator}: {first}", *later]))


def seen(x: Tensor) -> str:
    """A tensor as messages show it: float16 [2, 128, 8, 128]."""
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"


def one_device(tensors: dict[str, Tensor | None]) -> Iterator[Fault]:
    """A kernel reads one device's memory. Tensors by argument name; those that are not given are None."""
    places = {name: x.device for name, x in tensors.items() if x is not None}
    if len(set(places.values())) > 1:
        npu = [device for device in places.values() if device.type == "npu"]
        home = npu[0] if npu else next(iter(places.values()))
        stranger = next(name for name, device in places.items() if device != home)
        listed = ", ".join(f"{name} on {device}" for name, device in places.items())
        yield Fault(
            stranger,
            f"{stranger} is on {places[stranger]}: all tensors must be on {home}, but there are {listed}. Move it with "
            f".to({home.type!r})",
        )
