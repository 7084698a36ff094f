"""The process that workers are forked from: torch is imported here once, confined workers start in milliseconds.

Started by the judge as ``python -I template.py CONTROL_FD FOLDER PACKAGES DEVICE WALL...``, with a clean environment;
DEVICE is ``cpu`` or ``npu``, the emulated one. It stays
on one thread and never runs a backward pass, else its children could not. It ends, with all it started, when the judge
hangs up.

Requests on the control socket are one line of JSON, some with a descriptor attached; each gets one line back:

    {"verb": "fork", "order": {...}} + socket    -> {"pid", "scratch"}   a confined worker serving the socket
    {"verb": "profile", "bans": [...]} + socket  -> {"pid"}              another template, with operators disabled
    {"verb": "reap", "pid": n}                   -> {"status", "cpu"}    waits for a killed worker, removes its folder
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import types
from typing import Any

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make_package() -> None:
    """Let this folder be imported as a package of its own; the repository around it is never on the path."""
    package = types.ModuleType("flashdojo_worker")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["flashdojo_worker"] = package


class Template:
    """Serves one control socket."""

    def __init__(self, control: socket.socket, folder: str, walls: Any, name: str = "w"):
        self.control, self.folder, self.walls, self.name = control, folder, walls, name
        self.children: dict[int, str | None] = {}  # pid -> scratch folder; None for another template
        self.forks = 0

    def serve(self) -> None:
        buffer = b""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.control, 65536, 4)
            if not data:
                return
            buffer += data
            if not buffer.endswith(b"\n"):
                continue
            request, buffer = json.loads(buffer), b""
            try:
                answer = getattr(self, "do_" + request.pop("verb"))(*descriptors, **request)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            for descriptor in descriptors:
                os.close(descriptor)
            self.control.sendall(json.dumps(answer).encode() + b"\n")

    def do_fork(self, descriptor: int, order: dict[str, int]) -> dict[str, Any]:
        self.forks += 1
        user = self.walls.user(os.getpid() * 61 + self.forks)
        scratch = modules().scratch.make(self.folder, f"{self.name}{self.forks}", user)
        template = os.getpid()
        with self.walls.fork_worker():
            child = os.fork()
            if child == 0:
                become_worker(descriptor, self.walls, modules().confine.Order(**order), scratch, user, template)
        self.children[child] = scratch
        return {"pid": child, "scratch": scratch}

    def do_profile(self, descriptor: int, bans: list[str]) -> dict[str, Any]:
        template = os.getpid()
        child = os.fork()
        if child == 0:
            profile = Template(self.control, self.folder, self.walls, "-".join(bans) + "-")
            become_template(descriptor, bans, profile, template)
        self.children[child] = None
        return {"pid": child}

    def do_reap(self, pid: int) -> dict[str, Any]:
        scratch = self.children[pid]
        _, status, usage = os.wait4(pid, 0)
        del self.children[pid]
        with contextlib.suppress(OSError):  # what is left is tried again at the end
            modules().scratch.remove(scratch)
        return {"status": status, "cpu": usage.ru_utime + usage.ru_stime}

    def end(self) -> None:
        """Nothing of ours outlives the judge."""
        for pid, scratch in self.children.items():
            if scratch is not None:
                os.kill(pid, signal.SIGKILL)
        for pid, scratch in self.children.items():
            os.waitpid(pid, 0)
            with contextlib.suppress(OSError):
                if scratch is not None:
                    modules().scratch.remove(scratch)


def modules() -> Any:
    return sys.modules["flashdojo_worker"]


def keep_only(descriptor: int) -> socket.socket:
    """Close every descriptor but this one, which becomes 3; 0, 1 and 2 lead nowhere."""
    os.dup2(descriptor, 3)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(4, 65536)
    os.set_inheritable(3, False)
    return socket.socket(fileno=3)


def become_worker(descriptor: int, walls: Any, order: Any, scratch: str, user: int | None, template: int) -> None:
    """In the child: confine, then serve. Never returns."""
    try:
        os.setsid()
        connection = keep_only(descriptor)
        walls.raise_around_me(order, scratch, user, template)
        sys.modules.pop("__main__", None)
        modules().serve.Worker(connection).serve()
    except BaseException:
        os._exit(70)
    os._exit(0)


def become_template(descriptor: int, bans: list[str], template: Template, parent: int) -> None:
    """In the child: disable the operators of these bans, then serve like the template it came from. Never returns."""
    try:
        template.control = keep_only(descriptor)
        modules().confine.die_with_parent(parent)
        modules().profiles.apply(bans)
        template.control.sendall(b'{"ready": true}\n')
        template.serve()
        template.end()
    except BaseException:
        os._exit(70)
    os._exit(0)


def clean_path() -> None:
    """Forget the ways into the repository: editable installs, the working folder."""
    repository = REPOSITORY + os.sep
    environment = os.path.realpath(sys.prefix) + os.sep
    sys.path[:] = [
        entry for entry in sys.path
        if entry and (not (entry + os.sep).startswith(repository) or (entry + os.sep).startswith(environment))
    ]  # fmt: skip
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
    for name in [name for name in sys.modules if name.startswith("__editable__")]:
        del sys.modules[name]
    sys.path_importer_cache.clear()


def main(arguments: list[str]) -> None:
    make_package()
    if arguments[0] == "probe":
        import tempfile

        sys.path += [entry for entry in arguments[1:] if entry and entry not in sys.path]
        from flashdojo_worker import confine

        clean_path()
        with tempfile.TemporaryDirectory(prefix="flashdojo-") as folder:
            print(json.dumps(confine.try_layers(folder)))
        return
    control = socket.socket(fileno=int(arguments[0]))
    folder, packages, device, *wanted = arguments[1:]
    if packages not in sys.path:
        sys.path.append(packages)  # where the judge found torch, which may be a place that -I leaves out
    os.set_inheritable(control.fileno(), False)
    from flashdojo_worker import bans, confine, place, profiles, scratch, serve  # noqa: F401

    clean_path()
    if device == "npu":
        place.emulate_npu(REPOSITORY)
    layers = confine.try_layers(folder, wanted)
    walls = confine.Walls({name for name, (ok, _) in layers.items() if ok}, layers["namespaces"][1].split(", "))
    above = os.open(os.path.dirname(folder), getattr(os, "O_PATH", os.O_RDONLY))
    walls.enter(folder)
    bans.prepare()
    serve.start_alike()
    template = Template(control, folder, walls)
    control.sendall(json.dumps({"ready": True, "layers": layers}).encode() + b"\n")
    template.serve()
    template.end()
    for name in os.listdir(folder):
        scratch.remove(os.path.join(folder, name))
    os.rmdir(os.path.basename(folder), dir_fd=above)  # in the namespace of its own it is a root, which cannot go


if __name__ == "__main__":
    main(sys.argv[1:])
