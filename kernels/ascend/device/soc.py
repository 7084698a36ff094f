"""The chip that the device pretends to be; kernels.machine.chips has the table."""

from __future__ import annotations

from kernels.machine.chips import DEFAULT, SOCS, Soc, find_soc

__all__ = ["DEFAULT", "SOCS", "Soc", "current_soc", "find_soc", "use_soc"]

_current = find_soc(DEFAULT)


def current_soc() -> Soc:
    """The chip that the device pretends to be."""
    return _current


def use_soc(name: str) -> Soc:
    """Pretend to be another chip from now on. Raises ValueError for an unknown one."""
    global _current
    _current = find_soc(name)
    return _current
