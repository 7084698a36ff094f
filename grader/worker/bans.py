"""Library attention, disabled underneath Python for every worker; and the means by which ``profiles`` disables more.

Runs in the template, before learner code exists. The registrations are never taken back: their handles are leaked, so
there is no Python object that could undo them.
"""

from __future__ import annotations

import ctypes
import gc
import re
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.fx.experimental.symbolic_shapes  # else the first torch.autograd.grad imports it: 0.5 s

from .memory import keep_malloc_honest, warm_up

ATTENTION = re.compile(r"attention|multi_?head|transformer|_sdp_", re.IGNORECASE)
KEYS = ("CPU", "AutogradCPU", "Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd")


def prepare() -> None:
    """What holds for every worker: one thread, predictable memory, no library attention."""
    torch.set_num_threads(1)
    keep_malloc_honest()
    warm_up()  # torch reads /proc/cpuinfo and the like at first use, which a worker may not
    disable_operators(ATTENTION, "library attention is not allowed in FlashDojo")
    disable_attention_modules()
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
    """(namespace, name.overload) of every registered operator whose name matches."""
    names = torch._C._dispatch_get_all_op_names()
    return [tuple(name.split("::", 1)) for name in names if pattern.search(name)]  # type: ignore[misc]


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


def disable_attention_modules() -> None:
    """Attention that torch writes in Python: its functions get the code of a refusal, whoever holds them."""
    import torch._higher_order_ops.flex_attention as higher
    import torch.nn.attention.flex_attention as flex
    from torch.nn.modules import activation, transformer

    message = "library attention is not allowed in FlashDojo: {}"
    for module in (flex, higher):
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                replace_code(value, message.format(name))
    classes: list[Any] = [activation.MultiheadAttention]
    classes += [c for n, c in vars(transformer).items() if n.startswith("Transformer") and isinstance(c, type)]
    for kind in classes:
        for method in ("__init__", "forward"):
            replace_code(kind.__dict__[method], message.format(kind.__name__))
    replace_code(torch.nn.functional.multi_head_attention_forward, message.format("multi_head_attention_forward"))


def replace_code(function: Any, message: str) -> None:
    """Turn a function into a refusal. New code must close over as many variables as the old."""
    cells = len(function.__code__.co_freevars)
    source = "def outer({}):\n def refuse(*args, **kwargs):\n  {}\n  raise RuntimeError({!r})\n return refuse".format(
        ", ".join(f"c{i}" for i in range(cells)), ";".join(f"c{i}" for i in range(cells)) or "pass", message
    )
    scope: dict[str, Any] = {}
    exec(source, scope)
    function.__code__ = scope["outer"](*[None] * cells).__code__
