"""The system-call filter: what no attention needs answers EPERM. Built on libseccomp; applied last."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
from typing import Any

try:
    import pyseccomp
except (ImportError, RuntimeError, OSError) as _error:  # no libseccomp, or not Linux
    pyseccomp = None
    MISSING = str(_error)
else:
    MISSING = ""

CLONE_THREAD = 0x10000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY = 8, 10, 15, 1024, 1026
FIOSETOWN, SIOCSPGRP, TIOCSTI = 0x8901, 0x8902, 0x5412
F_SETPIPE_SZ = 1031
MAP_HUGETLB = 0x40000  # such pages are not part of what is resident
MADV_FREE, MADV_COLD, MADV_PAGEOUT = 8, 20, 21  # each would hide memory that is in use

DENIED: list[str | int] = [
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4",
    "execve", "execveat", "fork", "vfork",
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_open", "pidfd_getfd",
    "pidfd_send_signal",
    "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "fsopen", "fsmount", "move_mount", "open_tree",
    "fspick", "mount_setattr",
    "bpf", "perf_event_open", "keyctl", "add_key", "request_key", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register",
    "name_to_handle_at", "open_by_handle_at", "memfd_create", "memfd_secret", "fanotify_init",
    "shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgctl", "semget", "semop", "semctl", "mq_open", "mq_unlink",
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid",
    "capset",
    "setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity",
    "migrate_pages", "move_pages",
    "init_module", "finit_module", "delete_module", "kexec_load", "reboot", "swapon", "swapoff", "acct", "quotactl",
    "syslog", "personality",
    "clock_settime", "settimeofday", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
    "mlock", "mlock2", "mlockall",
    "inotify_init", "inotify_init1", "statmount", "listmount",  # what goes on elsewhere; the last two also by number:
    457, 458,  # a libseccomp older than a call has no name for it. Numbers since 424 are the same on every architecture
    "io_setup", "io_submit", "splice", "tee", "vmsplice",  # would move data past the count of bytes written
]  # fmt: skip
MARKS_ON_FILES: list[str | int] = [  # which Landlock does not look at: they would harm files of the same user
    "chown", "fchown", "lchown", "fchownat", "truncate", "setxattr", "lsetxattr", "fsetxattr", 463, "removexattr",
    "lremovexattr", "fremovexattr", 466,
]  # fmt: skip
MODES_AND_TIMES: list[str | int] = [  # the same, and part of copying a file
    "chmod", "fchmod", "fchmodat", 452, "utime", "utimes", "utimensat", "futimesat",
]  # fmt: skip


def apply(rules: Any = None) -> None:
    """Load the filters (:func:`common`, or others) into this process, for good. Signals may go to this process only."""
    sc: Any = pyseccomp
    signals = sc.SyscallFilter(sc.ALLOW)
    for name in ("kill", "tgkill"):
        _deny(signals, name, sc.Arg(0, sc.NE, os.getpid()))
    signals.load()
    (rules or common()).load()


def _deny(rules: Any, name: str | int, *conditions: Any) -> None:
    _answer(rules, errno.EPERM, name, *conditions)


def _answer(rules: Any, code: int, name: str | int, *conditions: Any) -> None:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # unknown to this architecture or libseccomp
        rules.add_rule(pyseccomp.ERRNO(code), name, *conditions)


@functools.cache
def common() -> Any:
    """What is the same for every worker: put together once, before they are forked."""
    sc: Any = pyseccomp
    rules = _without([*DENIED, *MARKS_ON_FILES, *MODES_AND_TIMES])
    deny = functools.partial(_deny, rules)
    deny("fcntl", sc.Arg(1, sc.EQ, F_SETPIPE_SZ))
    deny("mmap", sc.Arg(3, sc.MASKED_EQ, MAP_HUGETLB, MAP_HUGETLB))
    for advice in (MADV_FREE, MADV_COLD, MADV_PAGEOUT):
        deny("madvise", sc.Arg(2, sc.EQ, advice))
    return rules


def for_kernels() -> Any:
    """For a Jupyter kernel: as :func:`common`, but it may bind unix stream sockets (not connect: the socket of some
    service of the machine may lie in its reach), and become the program that it is to run. It cannot change the mode or
    time of a file; it is told that it did, since IPython would not start otherwise."""
    sc: Any = pyseccomp
    needed = {"socket", "socketpair", "bind", "listen", "accept", "accept4", "execve", "sched_setscheduler"}
    rules = _without([*(name for name in DENIED if name not in needed), *MARKS_ON_FILES])
    _deny(rules, "sched_setscheduler", sc.Arg(1, sc.NE, os.SCHED_OTHER))  # which zmq asks for, to no effect
    for name in MODES_AND_TIMES:
        _answer(rules, 0, name)
    # zmq looks for its interfaces over a netlink socket: EPERM would end it, this it takes for "there are none".
    rules.add_rule(sc.ERRNO(errno.EOPNOTSUPP), "socket", sc.Arg(0, sc.NE, socket.AF_UNIX))
    _deny(rules, "socket", sc.Arg(1, sc.MASKED_EQ, 0xF, socket.SOCK_DGRAM))
    return rules


def _without(names: list[str | int]) -> Any:
    """A filter that denies these calls, new processes, and ways to signal others or to outlive the judge."""
    sc: Any = pyseccomp
    rules = sc.SyscallFilter(sc.ALLOW)
    deny = functools.partial(_deny, rules)
    for name in names:
        deny(name)
    deny("clone", sc.Arg(0, sc.MASKED_EQ, CLONE_THREAD, 0))
    rules.add_rule(sc.ERRNO(errno.ENOSYS), "clone3")  # its flags lie in memory; the C library then uses clone
    deny("prlimit64", sc.Arg(0, sc.NE, 0))
    for option in (PR_SET_PDEATHSIG, PR_SET_DUMPABLE):
        deny("prctl", sc.Arg(0, sc.EQ, option))
    for command in (F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY):
        deny("fcntl", sc.Arg(1, sc.EQ, command))
    for request in (FIOSETOWN, SIOCSPGRP, TIOCSTI):
        deny("ioctl", sc.Arg(1, sc.EQ, request))
    return rules
