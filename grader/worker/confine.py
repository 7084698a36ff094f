"""The walls around a worker, each used where the kernel has it. ``probe()`` says which those are.

process    a process of its own: descriptors closed, environment emptied, no terminal   everywhere
limits     address space, CPU, file size, open files, no core dumps                     everywhere
user       an unprivileged user of its own, no capabilities                             when started as root
namespaces no network, no other process, no other file to name                          where unshare(2) is allowed
landlock   files: Python and its packages to read, one folder to write; no TCP          Linux 5.13 and later
seccomp    no network, no processes, no tracing, no signals to others                   Linux with libseccomp
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import resource
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from . import identity, landlock, namespaces, scratch, syscalls

LAYERS = ("process", "limits", "user", "namespaces", "landlock", "seccomp")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/usr/share/fonts",
          "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts")  # fmt: skip
PR_SET_PDEATHSIG = 1
FIRST_USER, USERS = 61500, 3000  # in the range that systemd keeps for dynamic users
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Order:
    """What the judge asks of one worker's walls. Sizes in bytes, ``cpu`` in seconds."""

    address_space: int
    cpu: int
    file_size: int = 16 * MEGABYTE
    open_files: int = 64


def readable_paths() -> list[str]:
    """Where Python, its packages and the libraries they load lie."""
    here = os.path.dirname(os.path.abspath(__file__))
    repository = os.path.dirname(os.path.dirname(here))
    paths = [sys.prefix, sys.exec_prefix, *sysconfig.get_paths().values(), *sys.path]
    paths += [sysconfig.get_config_var("LIBDIR") or "", os.path.dirname(os.path.realpath(sys.executable))]
    found = []
    for path in paths:
        path = os.path.realpath(path)
        inside = path.startswith(repository + os.sep) and not path.startswith(os.path.realpath(sys.prefix))
        around = (repository + os.sep).startswith(path.rstrip(os.sep) + os.sep)
        if os.path.exists(path) and path not in found and not inside and not around:
            found.append(path)
    return found + list(SYSTEM)


def layers() -> dict[str, tuple[bool, str]]:
    """What this kernel and this user can have, before trying it."""
    version = landlock.abi()
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return {
        "process": (True, "a process of its own, environment and descriptors cleaned"),
        "limits": (True, "address space, CPU time, file size, open files"),
        "user": (root, "a user of its own" if root else "the judge is not root, so the worker is the same user"),
        "namespaces": (sys.platform == "linux", "" if sys.platform == "linux" else "not Linux"),
        "landlock": (version > 0, f"ABI {version}" if version else "the kernel has no Landlock"),
        "seccomp": (syscalls.pyseccomp is not None, syscalls.MISSING or "filter by libseccomp"),
    }


class Walls:
    """The layers that are in force for the workers of one template."""

    def __init__(self, active: set[str], kinds: Sequence[str] = ()):
        self.active, self.kinds = active, kinds if "namespaces" in active else ()
        self.readable = readable_paths()
        if "seccomp" in active:
            syscalls.common()
        self._keep_reading = "landlock" in active and not identity.reachable(self.readable)

    def enter(self, folder: str) -> None:
        """Move the template itself, and so its workers, into what they can share."""
        namespaces.enter(self.kinds, [*self.readable, *DEVICES], folder)
        if "mnt" in self.kinds:
            self._keep_reading = self._keep_reading and not identity.reachable(self.readable)

    @contextlib.contextmanager
    def fork_worker(self) -> Iterator[None]:
        """Around the fork of a worker, on the template's side."""
        mine = namespaces.next_child_first() if "pid" in self.kinds else None
        try:
            yield
        finally:
            if mine is not None:
                namespaces.no_longer(mine)

    def user(self, number: int) -> int | None:
        return FIRST_USER + number % USERS if "user" in self.active else None

    def raise_around_me(self, order: Order, folder: str, user: int | None, parent: int) -> None:
        """Confine the calling process. Whatever fails raises, and the worker must not go on."""
        rules = landlock.ruleset(self.readable, [folder], DEVICES) if "landlock" in self.active else None
        os.environ.clear()
        os.environ.update(
            HOME=folder, TMPDIR=folder, MPLCONFIGDIR=folder, MPLBACKEND="Agg", PATH="/nonexistent", LANG="C.UTF-8"
        )
        limit(order, user is not None, "seccomp" in self.active)
        namespaces.be_alone(self.kinds, folder)
        os.chdir(folder)
        if user is not None:
            identity.become(user, self._keep_reading)
        elif sys.platform == "linux":  # root's, or those that come with a user namespace
            identity.set_capabilities(0)
        die_with_parent(parent)
        if rules is not None:
            landlock.restrict(rules)
        if "seccomp" in self.active:
            syscalls.apply()


def limit(order: Order, own_user: bool, filtered: bool) -> None:
    values = {
        "CORE": 0, "CPU": order.cpu, "FSIZE": order.file_size, "NOFILE": order.open_files, "MEMLOCK": 0,
    }  # fmt: skip
    size = virtual_size()
    if size:
        values["AS"] = size + order.address_space
    if own_user:
        values["NPROC"] = 64
    elif not filtered:
        values["NPROC"] = 1  # nothing else stops processes here; threads of torch then fail too
    for name, value in values.items():
        kind = getattr(resource, "RLIMIT_" + name, None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            most = value + 1 if name == "CPU" else value  # a second from SIGXCPU to SIGKILL
            if hard != resource.RLIM_INFINITY:
                value, most = min(value, hard), min(most, hard)
            resource.setrlimit(kind, (value, most))


def virtual_size() -> int:
    """Bytes of address space in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)  # forgotten when the user changes: set it after that
    if os.getppid() not in (parent, 0):  # 0: the parent is outside of this process's namespace
        os._exit(3)


def probe() -> dict[str, tuple[bool, str]]:
    """Each layer: is it in force on this machine, and what there is to say. Tries them in a process of its own."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "template.py")
    try:
        command = [sys.executable, "-I", script, "probe", *sys.path]  # what -I leaves out may hold libseccomp's module
        answer = subprocess.run(command, capture_output=True, timeout=30, check=True)
        return {name: (bool(ok), str(detail)) for name, (ok, detail) in json.loads(answer.stdout).items()}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {name: (False, f"{type(error).__name__}: {error}") for name in LAYERS}


def try_layers(parent: str, wanted: Collection[str] = LAYERS) -> dict[str, tuple[bool, str]]:
    """:func:`layers`, with each that is wanted tried in a child of this process. Of namespaces it tells the kinds."""
    found = {name: layer if name in wanted else (False, "switched off") for name, layer in layers().items()}
    for name in ("user", "landlock", "seccomp"):
        if found[name][0]:
            problem = _in_child(parent, functools.partial(_raise_one, name, os.getpid()))
            if problem:
                found[name] = (False, problem)
    if found["namespaces"][0]:
        readable = readable_paths()
        found["namespaces"] = namespaces.kinds_in(_in_child(parent, lambda folder: namespaces.trial(readable, folder)))
    for_all = "mnt" in found["namespaces"][1].split(", ") or identity.reachable(readable_paths())
    if found["user"][0] and not found["landlock"][0] and not for_all:
        found["user"] = (False, "only root can read this Python, and there is no Landlock")
    return found


def _raise_one(name: str, parent: int, folder: str) -> str:
    user = FIRST_USER if name == "user" else None
    Walls({name}).raise_around_me(Order(1 << 40, 10), folder, user, parent)
    return ""


def _in_child(parent: str, action: Callable[[str], str]) -> str:
    """What ``action`` returns in a child that has a folder for it, or why it cannot."""
    reader, writer = os.pipe()
    folder = scratch.make(parent, "probe", None)
    child = os.fork()
    if child == 0:
        try:
            answer = action(folder)
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode()[:500])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    scratch.remove(folder)
    return answer
