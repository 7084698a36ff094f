"""Where a worker's tensors live: on the CPU, as the wire brings them, or on the emulated NPU (stage 3 and later).

Tensors go in as aliases of what the wire brought and come out as aliases too, so nothing is copied and a changed input
shows in the bytes that the judge compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .provided import Provided, make

OPERATORS = ("cann_ops_transformer", "npu")  # namespaces of operators that stage 3 is about
HIDDEN = ("kernels", "ops_transformer")  # modules that hold answers; what they loaded stays, they go


class Place:
    """The CPU."""

    def inward(self, value: Any) -> Any:
        """Nested arguments as learner code gets them."""
        if type(value) is Provided:
            return make(value, None)
        return each_tensor(value, lambda tensor: tensor, self.inward)

    def outward(self, value: Any) -> Any:
        """Nested results as the wire takes them."""
        return value

    def own(self, thing: Any) -> Any:
        """An object of the learner's, where its inputs will be."""
        return thing

    def use_soc(self, name: str) -> None:
        raise RuntimeError(f"no NPU here that could be a {name}")


class Npu(Place):
    """The emulated device; ``device`` is the package ``kernels.ascend.device``."""

    def __init__(self, device: Any):
        self.npu_alias: Callable[[Tensor], Tensor] = device.alias.npu_alias
        self.cpu_alias: Callable[[Tensor], Tensor] = device.alias.cpu_alias
        self.launch = device.queue.launch
        self.chips = device.soc

    def inward(self, value: Any) -> Any:
        if type(value) is Provided:
            return make(value, self.launch)
        return each_tensor(value, self.npu_alias, self.inward)

    def outward(self, value: Any) -> Any:
        def out(tensor: Tensor) -> Tensor:
            return self.cpu_alias(tensor.detach()) if tensor.device.type == "npu" else tensor

        return each_tensor(value, out, self.outward)

    def use_soc(self, name: str) -> None:
        self.chips.use_soc(name)

    def own(self, thing: Any) -> Any:
        return thing.to("npu") if isinstance(thing, nn.Module) else thing


def each_tensor(value: Any, change: Callable[[Tensor], Tensor], inner: Callable[[Any], Any]) -> Any:
    """``value`` with plain tensors changed and containers (of exactly these types) walked by ``inner``."""
    kind = type(value)
    if kind is Tensor or kind is nn.Parameter:
        return change(value) if value.layout is torch.strided else value
    if kind is list or kind is tuple:
        return kind(inner(item) for item in value)
    if kind is dict:
        return {key: inner(item) for key, item in value.items()}
    return value


current: Place = Place()  # of this process and those forked from it


def emulate_npu(repository: str) -> None:
    """Load the emulated device from the repository and forget the way there. Before any thread and any fork."""
    global current
    sys.path.insert(0, repository)
    try:
        import kernels.ascend

        kernels.ascend.install()
        current = Npu(kernels.ascend.device)
        import torch._dynamo  # noqa: F401  the first optimiser imports it, which a confined worker no longer can
    finally:
        sys.path.remove(repository)
        for name in [name for name in sys.modules if name.split(".")[0] in HIDDEN]:
            del sys.modules[name]
