"""The module ``torch.npu``, which is ``torch_npu.npu`` too."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import types
from typing import Any, NoReturn

import torch

from kernels.ascend.device import amp, memory, rng, streams
from kernels.ascend.device.refusals import check_device
from kernels.ascend.device.soc import current_soc


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """What ``get_device_properties`` tells of the emulated chip; total_memory in bytes."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int


class device(contextlib.ContextDecorator):
    """A context in which that device is the current one; there is one only."""

    def __init__(self, device: Any = None):
        self.idx = _index(device)

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _index(device: Any) -> int:
    where = torch.device(device) if isinstance(device, str) else device
    if isinstance(where, torch.device) and where.type != "npu":
        raise ValueError(f"Expected a npu device, but got: {where}")
    check_device(where)
    return 0


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def init() -> None:
    """Nothing to start."""


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: Any) -> None:
    """Choose the device: there is npu:0 only, another is a RuntimeError."""
    _index(device)


def get_device_name(device: Any = None) -> str:
    """The chip's name; it says that the device is emulated."""
    _index(device)
    return f"{current_soc().name} (emulated)"


def get_soc_version() -> int:
    """The chip's number, by which torch_npu tells the generations apart."""
    return current_soc().id


def get_device_properties(device: Any = None) -> DeviceProperties:
    _index(device)
    soc = current_soc()
    return DeviceProperties(get_device_name(), soc.memory, soc.cube_core_num, soc.vector_core_num)


def get_device_capability(device: Any = None) -> None:
    """A chip of this kind has no capability number."""
    _index(device)


def is_bf16_supported() -> bool:
    return current_soc().bfloat16


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16] if is_bf16_supported() else [torch.float16]


def _is_in_bad_fork() -> bool:
    return False


def _index_in_file(location: Any, optional: bool = False) -> int:
    """The device that torch.load asks for."""
    try:
        return _index(location)
    except RuntimeError as error:
        raise RuntimeError(f'{error} To load what was saved elsewhere, give torch.load map_location="npu".') from None


def _absent(name: str) -> NoReturn:
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r} on the emulated NPU")


_OURS = (
    device, is_available, is_initialized, init, device_count, current_device, set_device, get_device_name,
    get_soc_version, get_device_properties, get_device_capability, is_bf16_supported, get_amp_supported_dtype,
    _is_in_bad_fork,
    memory.memory_allocated, memory.max_memory_allocated, memory.memory_reserved, memory.max_memory_reserved,
    memory.reset_peak_memory_stats, memory.empty_cache, memory.mem_get_info, memory.memory_stats, memory.memory_summary,
    rng.manual_seed, rng.seed, rng.initial_seed, rng.get_rng_state, rng.set_rng_state, rng.get_rng_state_all,
    rng.set_rng_state_all,
    streams.synchronize, streams.Event, streams.Stream, streams.current_stream, streams.set_stream, streams.stream,
)  # fmt: skip


def module() -> types.ModuleType:
    """A module with all of it, for ``torch.npu``."""
    made = types.ModuleType("torch.npu", __doc__)
    made.__spec__ = importlib.machinery.ModuleSpec("torch.npu", None)
    vars(made).update({thing.__name__: thing for thing in _OURS})
    vars(made).update(
        __emulated__=True,
        _initialized=True,
        __getattr__=_absent,
        manual_seed_all=rng.manual_seed,
        seed_all=rng.seed,
        reset_max_memory_allocated=memory.reset_peak_memory_stats,
        default_stream=streams.current_stream,
        amp=amp.namespace,
        utils=types.SimpleNamespace(get_soc_version=get_soc_version, synchronize=streams.synchronize),
        _utils=types.SimpleNamespace(_get_device_index=_index_in_file),
    )
    return made
