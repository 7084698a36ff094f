"""Walls around a program that is not ours: a Jupyter kernel with an instructor's own graded cells and a learner's code.

    python -I confined.py READABLE... --write FOLDER [--memory MIB] [--cpu SECONDS] -- COMMAND...

raises them and becomes COMMAND. It reads Python, its packages and READABLE, writes FOLDER alone, starts no process,
reaches no network and ends with its parent. Unix sockets may be bound below FOLDER and threads started, which is what a
kernel needs with ``transport="ipc"`` and its connection file in FOLDER. When root, the command runs as a user of its
own, to whom FOLDER and what lies in it then belong. Without Landlock it refuses, since nothing would keep it from the
course folder: exit code 71, one line on stderr.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Iterable, Sequence

REFUSED = 71
MEMORY, CPU = 4096, 600  # MiB of private memory, seconds
LIBRARIES = 16 << 30  # bytes of address space for what is mapped and not used: torch, the arenas of threads
FILE_SIZE, OPEN_FILES, PROCESSES = 64 << 20, 512, 256
KEPT = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "JPY_PARENT_PID", "JPY_SESSION_NAME", "OMP_NUM_THREADS")
MACHINE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu")  # torch asks, and complains


def command(
    readable: Iterable[str], folder: str, argv: Sequence[str], *, memory: int = MEMORY, cpu: int = CPU
) -> list[str]:
    """The ``argv`` that runs another one confined; also for a kernel specification, ``{connection_file}`` and all.

    ``folder`` exists, others may pass through the folders above it. ``memory`` in MiB, ``cpu`` in seconds.
    """
    walls = ["--write", folder, "--memory", str(memory), "--cpu", str(cpu)]
    return [sys.executable, "-I", os.path.abspath(__file__), *readable, *walls, "--", *argv]


def main(arguments: list[str]) -> None:
    from flashdojo_worker import confine, identity, landlock, syscalls

    parser = argparse.ArgumentParser(prog="confined.py", usage="%(prog)s READABLE... --write FOLDER -- COMMAND...")
    parser.add_argument("readable", nargs="*")
    parser.add_argument("--write", required=True)
    parser.add_argument("--memory", type=int, default=MEMORY)
    parser.add_argument("--cpu", type=int, default=CPU)
    middle = arguments.index("--") if "--" in arguments else len(arguments)
    options, program = parser.parse_args(arguments[:middle]), arguments[middle + 1 :]
    if not program:
        parser.error("no COMMAND after --")
    if not landlock.abi():
        sys.exit("confined.py: the kernel has no Landlock, so the command is not run")
    parent = os.getppid()
    folder = os.path.realpath(options.write)
    readable = [*confine.readable_paths(), *map(os.path.realpath, options.readable), *MACHINE]
    clean(folder)
    rules = landlock.ruleset(readable, [folder], confine.DEVICES, sockets=True)
    filters = syscalls.for_kernels() if syscalls.pyseccomp is not None else None
    limit(options.memory << 20, options.cpu)
    if os.geteuid() == 0:
        user = confine.FIRST_USER + os.getpid() % confine.USERS
        give(folder, user)
        identity.become(user, not identity.reachable(readable), over_exec=True)
    confine.die_with_parent(parent)
    landlock.restrict(rules)
    if filters is not None:
        syscalls.apply(filters)
    os.execv(program[0], program)


def clean(folder: str) -> None:
    """Nothing of the caller's environment but what a kernel is told with it; no descriptor but the standard three."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    os.environ.clear()
    os.environ.update(kept)
    os.environ.update(
        HOME=folder, TMPDIR=folder, MPLCONFIGDIR=folder, IPYTHONDIR=os.path.join(folder, ".ipython"),
        PATH=os.path.dirname(sys.executable), PYTHONNOUSERSITE="1", PYTHONDONTWRITEBYTECODE="1",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0", FLASHDOJO_NPU="emulated",  # a real NPU is out of reach
        PYTHONWARNINGS="ignore:Couldn't bind IOPub Pipe",
    )  # fmt: skip
    if not (os.getcwd() + os.sep).startswith(folder + os.sep):
        os.chdir(folder)
    os.closerange(3, 65536)


def limit(memory: int, cpu: int) -> None:
    values = {
        "CORE": 0, "CPU": cpu, "FSIZE": FILE_SIZE, "NOFILE": OPEN_FILES, "DATA": memory, "AS": memory + LIBRARIES,
    }  # fmt: skip
    if os.geteuid() == 0:
        values["NPROC"] = PROCESSES  # of the user that it will become
    for name, value in values.items():
        kind = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def give(folder: str, user: int) -> None:
    for place, _, files, descriptor in os.fwalk(folder):
        os.chown(place, user, user)
        for name in files:
            os.chown(name, user, user, dir_fd=descriptor, follow_symlinks=False)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from template import make_package

    del sys.path[0]
    make_package()
    try:
        main(sys.argv[1:])
    except OSError as error:
        print(f"confined.py: {error}; the command is not run", file=sys.stderr)
        sys.exit(REFUSED)
