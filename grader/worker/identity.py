"""Another user for a worker, when the judge is root; and no capabilities that it does not need."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 8, 47, 2
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def reachable(paths: Iterable[str]) -> bool:
    """Can any user read what lies below these paths? (A Python under ``/root`` often cannot be.)"""
    for path in paths:
        path = os.path.realpath(path)
        while True:
            try:
                mode = os.stat(path).st_mode
            except OSError:
                break
            if not mode & 0o001:
                return False
            if path == "/":
                break
            path = os.path.dirname(path)
    return True


def become(user: int, keep_reading: bool, over_exec: bool = False) -> None:
    """Drop to ``user``. ``keep_reading`` keeps CAP_DAC_READ_SEARCH (``over_exec``: in the next program too): only for a
    process that Landlock will confine."""
    if keep_reading:
        _check(_libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    mask = 1 << CAP_DAC_READ_SEARCH if keep_reading else 0
    set_capabilities(mask, mask if over_exec else 0)
    if mask and over_exec:
        _check(_libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0))


def set_capabilities(mask: int, inherited: int = 0) -> None:
    """Effective and permitted capabilities become ``mask``, inheritable ones ``inherited``. All are below 32 bits."""
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, struct.pack("6I", mask, mask, inherited, 0, 0, 0)))


def _check(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
