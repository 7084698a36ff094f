"""Random numbers on the device: a generator of its own, as on a card, seeded together with the CPU's by
``torch.manual_seed``. The numbers are those that the CPU draws from the same seed."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device.alias import cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.refusals import check_device

_Generator: Any = torch._C.Generator
_of_device: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by what identifies them in C++


class NpuGenerator(_Generator):
    """What ``torch.Generator(device="npu")`` makes."""

    def __init__(self) -> None:
        _of_device[self._cdata] = self

    def clone_state(self) -> NpuGenerator:
        clone = NpuGenerator()
        clone.set_state(self.get_state())
        return clone

    @property
    def device(self) -> torch.device:
        return torch.device("npu", 0)


class _AnyGenerator(type):
    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, _Generator)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _Generator)


class Generator(metaclass=_AnyGenerator):
    """Stands in for ``torch.Generator``, whose own constructor asks C++ hooks that Python cannot provide."""

    def __new__(cls, device: Any = "cpu") -> Any:
        where = torch.device("npu", device) if isinstance(device, int) else torch.device(device)
        if where.type != "npu":
            return _Generator(device=where)
        check_device(where)
        return NpuGenerator()


def patch() -> None:
    """Let ``torch.Generator`` make generators of the device too."""
    torch.Generator = Generator  # type: ignore[misc]


_default: Any = NpuGenerator()


def checked(generator: Any) -> Any:
    """The generator to draw from; raises RuntimeError for one of the CPU."""
    if generator is None:
        return _default
    if generator._cdata not in _of_device:
        raise RuntimeError(
            "Expected a 'npu' device type for generator but found 'cpu'. Make it with torch.Generator(device=\"npu\")."
        )
    return generator


def native_dropout(tensor: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(dropped and scaled, kept): the one operator that draws and takes no generator."""
    values = cpu_alias(tensor)
    kept = torch.empty_like(values, dtype=torch.bool)
    if train is False:
        return on_npu(values.clone()), on_npu(kept.fill_(True))
    kept.bernoulli_(1 - p, generator=_default)
    return on_npu(values.mul(kept).mul_(1 / (1 - p) if p < 1 else 0.0)), on_npu(kept)


def manual_seed(seed: int) -> None:
    """Seed the device's generator only."""
    _default.manual_seed(int(seed))


def seed() -> None:
    """Seed the device's generator from the system."""
    _default.seed()


def initial_seed() -> int:
    return _default.initial_seed()


def get_rng_state(device: Any = "npu") -> Tensor:
    """The state of the device's generator, a tensor of bytes on the CPU."""
    check_device(device)
    return _default.get_state()


def set_rng_state(new_state: Tensor, device: Any = "npu") -> None:
    check_device(device)
    _default.set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    return [get_rng_state()]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    for state in new_states:
        set_rng_state(state)
