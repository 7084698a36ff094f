"""Random numbers on the device: a generator of its own, as on a card, seeded together with the CPU's by
``torch.manual_seed``. The numbers are those that the CPU draws from the same seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device.refusals import check_index

_Generator: Any = torch._C.Generator


class NpuGenerator(_Generator):
    """What ``torch.Generator(device="npu")`` makes."""

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
        where = torch.device(device) if not isinstance(device, int) else torch.device("npu", device)
        if where.type != "npu":
            return _Generator(device=where)
        check_index(where)
        return NpuGenerator()


default_generator = NpuGenerator()


def checked(generator: Any) -> Any:
    """The generator to draw from; raises RuntimeError for one of the CPU."""
    if generator is None:
        return default_generator
    if not isinstance(generator, NpuGenerator):
        raise RuntimeError(
            "Expected a 'npu' device type for generator but found 'cpu'. Make it with torch.Generator(device=\"npu\")."
        )
    return generator


def manual_seed(seed: int) -> None:
    """Seed the device's generator only."""
    default_generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the device's generator from the system."""
    default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state(device: Any = "npu") -> Tensor:
    return default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Any = "npu") -> None:
    default_generator.set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    return [get_rng_state()]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    for state in new_states:
        set_rng_state(state)
