"""Library attention, disabled underneath Python for every worker; and the means by which ``profiles`` disables more.

Runs in the template, before learner code exists. The registrations are never taken back: their handles are leaked, so
there is no Python object that could undo them.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.ao.nn.quantizable
import torch.distributions
import torch.fx.experimental.symbolic_shapes  # else the first torch.autograd.grad imports it: 0.5 s
import torch.nn.attention.flex_attention
import torch.onnx.ops

from . import curtains
from .memory import keep_malloc_honest, warm_up
from .names import ATTENTION, REFUSALS
from .place import OPERATORS

PYTHON = ("torch.nn", "torch.ao.nn", "torch.onnx", "torch._higher_order_ops", "torch._decomp", "torch._refs",
          "torch.distributions")  # fmt: skip
KEYS = ("CPU", "AutogradCPU", "Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd")


def prepare() -> None:
    """What holds for every worker: one thread, predictable memory, no library attention, nothing unseen."""
    torch.set_num_threads(1)
    keep_malloc_honest()
    warm_up()  # torch reads /proc/cpuinfo and the like at first use, which a worker may not
    curtains.close()
    for disable in (disable_operators, disable_python):
        disable(ATTENTION, REFUSALS["library_attention"])
    gc.collect()
    gc.freeze()


def leak(thing: Any) -> None:
    """Keep an object for ever without anything pointing to it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def refusal(message: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(message)

    return refuse


def operators(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """(namespace, name.overload) of every registered operator whose name matches, but for those of the NPU, which are
    only there when an exercise is about them."""
    names = [name.split("::", 1) for name in torch._C._dispatch_get_all_op_names() if pattern.search(name)]
    return [(namespace, name) for namespace, name in names if namespace not in OPERATORS]


def disable_operators(pattern: re.Pattern[str], message: str) -> None:
    """Refuse matching operators at every dispatch key where they have a kernel, and where calls on the CPU arrive."""
    libraries: dict[tuple[str, str], Any] = {}
    for namespace, name in operators(pattern):
        for key in (key for key in torch._C.DispatchKey.__members__ if key in KEYS or has_kernel(namespace, name, key)):
            if (namespace, key) not in libraries:
                libraries[namespace, key] = torch._C._dispatch_library("IMPL", namespace, key, __file__, 0)
                leak(libraries[namespace, key])
            libraries[namespace, key].impl(name, key, refusal(f"{message}: {namespace}.{name}"))


def has_kernel(namespace: str, name: str, key: str) -> bool:
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(f"{namespace}::{name}", key)
    except RuntimeError:
        return False  # not a key of this build


def disable_python(pattern: re.Pattern[str], message: str) -> None:
    """What torch writes in Python: matching functions, and methods of matching classes, get the code of a refusal,
    whoever holds them."""
    for home in [module for name, module in list(sys.modules.items()) if name.startswith(PYTHON)]:
        for name, value in list(vars(home).items()):
            if pattern.search(name) and getattr(value, "__module__", "").startswith(PYTHON):
                for function in functions_of(value):
                    replace_code(function, f"{message}: {name}")


def functions_of(thing: Any) -> Iterator[types.FunctionType]:
    """A function and those it wraps; the methods of a class, but for construction and the like."""
    found = [thing]
    if isinstance(thing, type):
        found = [member for name, member in vars(thing).items() if not name.startswith("__")]
    for function in found:
        while isinstance(function, types.FunctionType):
            yield function
            function = getattr(function, "__wrapped__", None)


def replace_code(function: Any, message: str) -> None:
    """Turn a function into a refusal. New code must close over as many variables as the old."""
    cells = len(function.__code__.co_freevars)
    source = "def outer({}):\n def refuse(*args, **kwargs):\n  {}\n  raise RuntimeError({!r})\n return refuse".format(
        ", ".join(f"c{i}" for i in range(cells)), ";".join(f"c{i}" for i in range(cells)) or "pass", message
    )
    scope: dict[str, Any] = {}
    exec(source, scope)
    function.__code__ = scope["outer"](*[None] * cells).__code__
