"""Landlock: a process gives up every path outside an allow list, TCP, and signals to processes outside (Linux 5.13+).

Numbers are those of ``linux/landlock.h``; the system calls have the same numbers on every architecture.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1, 2, 4, 8, 16, 32, 128, 256
MAKE_SOCK = 1 << 9
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = READ_FILE | READ_DIR | EXECUTE
MAKE = MAKE_REG | MAKE_DIR  # not: links, pipes, sockets, devices
SCRATCH = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE | REMOVE_FILE | REMOVE_DIR
NET_TCP, SCOPE_ALL = 3, 3  # bind and connect; abstract unix sockets and signals
PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *args: object) -> int:
    result = _libc.syscall(number, *args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def abi() -> int:
    """Version of the kernel's Landlock, 0 when there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def ruleset(
    readable: Iterable[str], writable: Iterable[str], devices: Iterable[str] = (), sockets: bool = False
) -> int:
    """A descriptor of a ruleset that allows reading, scratch folders (``sockets``: to bind unix sockets there too) and
    some devices. Missing paths are skipped."""
    version = abi()
    handled = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    fields = struct.pack("QQQ", handled, NET_TCP if version >= 4 else 0, SCOPE_ALL if version >= 6 else 0)
    fields = fields[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = _call(CREATE_RULESET, fields, len(fields), 0)
    scratch = SCRATCH | MAKE_SOCK if sockets else SCRATCH
    for paths, access in ((readable, READ), (writable, scratch), (devices, READ_FILE | WRITE_FILE)):
        for path in paths:
            _allow(rules, path, access & handled)
    return rules


def _allow(rules: int, path: str, access: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= ON_FILES
        _call(ADD_RULE, rules, 1, ctypes.create_string_buffer(struct.pack("=Qi", access, target)), 0)
    finally:
        os.close(target)


def restrict(rules: int) -> None:
    """Put the calling thread, and what it starts, under the ruleset for good."""
    no_new_privileges()
    _call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def no_new_privileges() -> None:
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
