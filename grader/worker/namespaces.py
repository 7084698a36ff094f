"""Namespaces: what a process cannot name it cannot reach. Each kind is used where the start-up probe found it to work.

net, ipc, uts   once, in the template: an empty network without even a loopback, no one else's shared memory
mnt             the template's root holds only what Landlock allows, read-only; a worker sees its own scratch folder
                alone, and no ``/proc``
pid             each worker is the first process of its own: nothing that it starts outlives it, no other has a number
user            gives the right to the others to a judge who is not root

bubblewrap does the same from outside with the same system calls. It is not used: it is one more package, and it would
put the template into a process namespace of its own, where the judge, who watches workers by their numbers, cannot.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Iterable

KINDS = {"user": 1 << 28, "net": 1 << 30, "ipc": 1 << 27, "uts": 1 << 26, "mnt": 1 << 17, "pid": 1 << 29}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 1 << 12, 1 << 14, 1 << 18,
)  # fmt: skip
KEPT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | 1 << 10 | 1 << 11  # and noatime, nodiratime: a user may not drop them
MNT_DETACH = 2
OLD = "/.old"

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(kind: str) -> None:
    _check(_libc.unshare(KINDS[kind]), f"unshare {kind}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def enter(kinds: Collection[str], paths: Iterable[str], folder: str) -> None:
    """Move the calling process, which has one thread, into namespaces of these kinds, for good. With ``mnt`` its root
    then holds these paths to read, and ``folder`` to write."""
    if "user" in kinds:
        user, group = os.geteuid(), os.getegid()
        unshare("user")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open("/proc/self/" + name, "w") as file:
                file.write(text)
    for kind in ("net", "ipc", "uts"):
        if kind in kinds:
            unshare(kind)
    if "mnt" in kinds:
        unshare("mnt")
        new_root(paths, folder)


def new_root(paths: Iterable[str], folder: str) -> None:
    """Each path lies where it lay, and where links had led to it; all else is gone from sight."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    inside = os.open(folder, os.O_PATH)
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    done: list[str] = []
    for place in sorted({kind(path) for path in paths for kind in (os.path.abspath, os.path.realpath)}, key=len):
        if os.path.exists(place) and not any(place.startswith(above + os.sep) for above in done):
            bind(place, folder + place, MS_RDONLY if not place.startswith("/dev/") else 0)
            done.append(place)
    bind(f"/proc/self/fd/{inside}", folder + folder)
    bind("/proc", folder + "/proc", recursive=True)
    os.close(inside)
    os.mkdir(folder + OLD)
    _check(_libc.pivot_root(folder.encode(), (folder + OLD).encode()), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(OLD.encode(), MNT_DETACH), "umount")
    os.rmdir(OLD)
    mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def bind(source: str, target: str, flags: int = 0, recursive: bool = False) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    mount(source, target, None, MS_BIND | (MS_REC if recursive else 0))
    if flags:
        kept = os.statvfs(target).f_flag & KEPT_FLAGS
        mount("none", target, None, MS_REMOUNT | MS_BIND | MS_NOSUID | kept | flags)


def be_alone(kinds: Collection[str], scratch: str) -> None:
    """In a worker: no shared memory of others, of the template's folder only ``scratch``, of ``/proc`` nothing."""
    if "ipc" in kinds:
        unshare("ipc")
    if "mnt" in kinds:
        unshare("mnt")
        inside = os.open(scratch, os.O_PATH)
        mount("tmpfs", os.path.dirname(scratch), "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,nr_inodes=2,mode=755")
        os.mkdir(scratch)
        mount(f"/proc/self/fd/{inside}", scratch, None, MS_BIND)
        os.close(inside)
        mount("tmpfs", "/proc", "tmpfs", MS_RDONLY, "size=4k,nr_inodes=1,mode=555")


def next_child_first() -> int:
    """The next fork makes the first process of a new namespace. Returns what :func:`no_longer` takes."""
    mine = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    unshare("pid")
    return mine


def no_longer(mine: int) -> None:
    _check(_libc.setns(mine, KINDS["pid"]), "setns")
    os.close(mine)


def trial(paths: list[str], folder: str) -> str:
    """Which kinds work, as :func:`kinds_in` reads it. Tries them on the calling process, which is made for it."""
    found: list[str] = []
    problem = ""

    def attempt(*kinds: str, then: Callable[[], None] = lambda: None) -> None:
        nonlocal problem
        try:
            enter(kinds, paths, folder)
            then()
            found.extend(kinds)
        except OSError as error:
            problem = problem or error.strerror or str(error)

    there = [path for path in paths if os.path.exists(path)]

    def look() -> None:  # a capability to read everything does not go into a user namespace
        missing = [path for path in there if not os.path.exists(path)]
        if missing:
            raise FileNotFoundError(f"{missing[0]} could not be read any more")

    def look_and_write() -> None:
        be_alone(["mnt"], scratch)
        look()
        with open(os.path.join(scratch, "file"), "w") as file:
            file.write("x")

    if os.geteuid() != 0:
        attempt("user", then=look)
        if not found:
            return "!" + problem
    for kind in ("net", "ipc", "uts"):
        attempt(kind)
    try:
        no_longer(next_child_first())
        found.append("pid")
    except OSError as error:  # only root may come back from one
        problem = problem or error.strerror or str(error)
    scratch = os.path.join(folder, "scratch")
    os.mkdir(scratch)
    attempt("mnt", then=look_and_write)
    return ", ".join(found) or "!" + problem


def kinds_in(answer: str) -> tuple[bool, str]:
    """Did any work, and the kinds, or what the kernel said."""
    names = answer.split(", ")
    useful = set(names) <= set(KINDS) and names != ["user"]
    return useful, answer if useful else answer.removeprefix("!")
