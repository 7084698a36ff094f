"""Which packages for the NPU an environment has. Looks at files and at what is imported, imports nothing."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata


def emulated() -> bool:
    """Whether this process has the emulated NPU."""
    return getattr(sys.modules.get("torch_npu"), "__emulated__", False) is True


def is_there(package: str) -> bool:
    """Whether it is imported or can be found; a mere folder of that name does not count."""
    if sys.modules.get(package) is not None:
        return True
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


def version_of(package: str) -> str | None:
    """Its version, "?" when it is there without metadata, None when it is not there."""
    if not is_there(package):
        return None
    loaded = sys.modules.get(package)
    if getattr(loaded, "__emulated__", False):
        return str(loaded.__version__)  # type: ignore[union-attr]
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(loaded, "__version__", "?"))
