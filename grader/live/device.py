"""Where the live check puts tensors: on the CPU, or on the kernel's NPU, be it real or emulated."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

CALIBRATION = 512  # rows of the square matrix whose products fill time on a real NPU


class Device:
    """The CPU. ``name`` is what tensors there say of themselves."""

    name = "cpu"
    is_real_npu = False
    launch: Callable[[float], None] | None = None  # starts work of so many seconds and returns

    def copy(self, storage: torch.UntypedStorage) -> Tensor:
        """The bytes of a CPU storage, copied to the device."""
        return torch.empty(0, dtype=torch.uint8).set_(storage).to(self.name, copy=True)

    def twin(self, tensor: Tensor, copied: Tensor) -> Tensor:
        """``tensor`` again over ``copied``, the bytes of its storage."""
        twin = torch.empty(0, dtype=tensor.dtype)
        return twin.set_(copied.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())

    def own(self, thing: Any) -> Any:
        return thing

    @contextlib.contextmanager
    def soc(self, name: str | None) -> Iterator[None]:
        """While inside, the NPU is this one. A real one stays what it is."""
        yield


class Npu(Device):
    """The kernel's NPU, installed when it is not there yet."""

    name = "npu"

    def __init__(self) -> None:
        import kernels.ascend as ascend

        ascend.install()
        self.emulated = ascend.device if ascend.is_emulated() else None
        self.is_real_npu = self.emulated is None
        self.launch = self.emulated.queue.launch if self.emulated else _work_for

    def twin(self, tensor: Tensor, copied: Tensor) -> Tensor:
        # views, since storages of other devices than the CPU have their own ways
        return copied.view(tensor.dtype).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def own(self, thing: Any) -> Any:
        return thing.to("npu") if isinstance(thing, nn.Module) else thing

    @contextlib.contextmanager
    def soc(self, name: str | None) -> Iterator[None]:
        if name is None or self.emulated is None:
            yield
            return
        before = self.emulated.soc.current_soc().name
        self.emulated.soc.use_soc(name)
        try:
            yield
        finally:
            self.emulated.soc.use_soc(before)


def device(name: str) -> Device:
    """The device of a stage (``cpu`` or ``npu``)."""
    return Npu() if name == "npu" else Device()


def _work_for(seconds: float) -> None:
    """Start about so many seconds of matrix products on a real NPU."""
    if not _work:
        a = torch.ones(CALIBRATION, CALIBRATION, dtype=torch.float16, device="npu")
        for products in (20, 200):  # the first round warms up
            torch.get_device_module("npu").synchronize()
            start = time.perf_counter()
            for _ in range(products):
                a @ a
            torch.get_device_module("npu").synchronize()
            _work[:] = [a, (time.perf_counter() - start) / products]
    a, each = _work
    for _ in range(math.ceil(seconds / each)):
        a @ a


_work: list[Any] = []  # a matrix on the NPU, and the seconds of one product
