"""Making a module without a file."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Mapping
from typing import Any, NoReturn

VERSION = "1.0.0+emulated"  # every cann_ops_transformer says that it is 1.0.0
NONE: Mapping[str, str] = types.MappingProxyType({})


def add(
    name: str, doc: str | None, names: Mapping[str, Any], version: str = VERSION, absent: Mapping[str, str] = NONE
) -> None:
    """A module that can be imported from now on. absent: names that it does not have, and why."""
    module = types.ModuleType(name, doc)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)

    def missing(wanted: str) -> NoReturn:
        why = f": {absent[wanted]}" if wanted in absent else ""
        raise AttributeError(f"module {name!r} has no attribute {wanted!r} on the emulated NPU{why}")

    vars(module).update(__path__=[], __version__=version, __emulated__=True, __getattr__=missing)
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent and child not in vars(sys.modules[parent]):
        setattr(sys.modules[parent], child, module)
