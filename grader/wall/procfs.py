"""Memory and CPU time of another process, as the kernel tells it. Without /proc: memory None, CPU time 0."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from dataclasses import dataclass

CPU_CLOCK = 2  # CPUCLOCK_SCHED of linux/posix-timers_types.h: the low bits of the id of a process's clock


@dataclass(frozen=True)
class Memory:
    """Bytes. ``anonymous`` includes shared memory and what was swapped out: all that is not a page of a file."""

    resident: int
    peak: int
    anonymous: int
    files: int


def memory(pid: int) -> Memory | None:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if line.startswith(("Vm", "Rss")))  # others it may write
        kilobytes = {key: int(value.split()[0]) << 10 for key, value in lines.items()}
        anonymous = kilobytes["RssAnon"] + kilobytes["RssShmem"] + kilobytes.get("VmSwap", 0)
        return Memory(kilobytes["VmRSS"], kilobytes["VmHWM"], anonymous, kilobytes["RssFile"])
    except (OSError, KeyError, ValueError, IndexError):
        return None


def reset_peak(pid: int) -> bool:
    """Make the peak equal to what is resident now. False where that cannot be done."""
    return _clear_refs(pid, "5")


def forget_touched(pid: int) -> bool:
    """Mark every page as not used since. False where that cannot be done."""
    return _clear_refs(pid, "1")


def _clear_refs(pid: int, what: str) -> bool:
    try:
        with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
            file.write(what)
        return True
    except OSError:
        return False


def touched(pid: int) -> int | None:
    """Bytes of memory that is not a file's, used since :func:`forget_touched`."""
    total, of_a_file, referenced = 0, False, 0
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("Referenced:"):
                    referenced = int(line.split()[1])
                elif line.startswith("Anonymous:"):  # of a file's mapping: the pages written to, which are copies
                    total += min(referenced, int(line.split()[1])) if of_a_file else referenced
                elif line[0] in "0123456789abcdef":  # a mapping begins; the fifth field is the file's inode
                    of_a_file = line.split(maxsplit=5)[4] != "0" and not line.endswith("(deleted)\n")
    except (OSError, ValueError, IndexError):
        return None
    return total << 10


def written(pid: int) -> int | None:
    """Bytes that the process has handed to ``write`` and its kin so far; None where the kernel does not count them."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("wchar:"))
    except (OSError, ValueError, StopIteration):
        return None


def nameless_files(pid: int) -> int:
    """Bytes in files that the process holds open and that no folder names any more."""
    total = 0
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found = os.stat(f"{folder}/{name}")
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    total += found.st_size
    return total


def state(pid: int) -> tuple[str, float]:
    """The kernel's letter for what the process does (R: it wants a processor), and its seconds of CPU time so far."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return "?", 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time so far; 0 when unknown."""
    return state(pid)[1]


def process_clock(pid: int) -> float:
    """CPU seconds of a process and all of its threads so far, to the nanosecond. Where the system has no such clock of
    other processes (macOS): seconds by the clock on the wall."""
    if sys.platform != "linux":
        return time.perf_counter()
    return time.clock_gettime_ns((~pid << 3) | CPU_CLOCK) / 1e9
