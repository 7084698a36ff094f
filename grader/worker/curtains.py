"""Ways to compute behind the observer's back, closed while it watches.

They are torch's own and have their uses elsewhere, so they only refuse during an observed call: guards that keep
operators from Python, modes taken off their stack, and other threads, for which a mode does not count.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from . import observer

MESSAGE = "this hides what is computed from the grader: {}"
GUARDS = (
    "_DisableTorchDispatch", "_ExcludeDispatchKeyGuard", "_ForceDispatchKeyGuard", "_IncludeDispatchKeyGuard",
    "_pop_torch_dispatch_stack", "_unset_dispatch_mode", "_set_dispatch_mode", "fork",
)  # fmt: skip


def close() -> None:
    """Replace them wherever torch and threading hold them."""
    originals = {name: getattr(torch._C, name) for name in GUARDS if hasattr(torch._C, name)}
    originals |= {name: getattr(_thread, name) for name in vars(_thread) if name.startswith("start_")}
    by_identity = {id(value): unless_watched(name, value) for name, value in originals.items()}
    homes = [m for n, m in list(sys.modules.items()) if n.split(".")[0] == "torch" and m is not None]
    for module in (*homes, torch._C, _thread, threading):
        for name, value in list(vars(module).items()):
            if id(value) in by_identity:
                setattr(module, name, by_identity[id(value)])


def unless_watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if observer.watching():
            raise RuntimeError(MESSAGE.format(name))
        return original(*args, **kwargs)

    return call


def other_threads() -> int:
    return _thread._count()
