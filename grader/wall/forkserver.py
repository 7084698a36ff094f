"""The judge's end of the template: starts it when it is first needed, has workers forked, buries them.

:class:`Template` may be used from several threads; one process at a time talks to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import torch

from grader.paths import WORKER
from grader.wall import procfs
from grader.worker.confine import LAYERS, Order

START_SECONDS = 120.0
ANSWER_SECONDS = 60.0


class TemplateError(RuntimeError):
    """The grader's own machinery failed; it says nothing about a submission."""


@dataclass
class Child:
    """A worker: its process (not reaped before :meth:`Template.bury`), our end of its socket, its folder."""

    pid: int
    connection: socket.socket
    scratch: str
    bans: tuple[str, ...]
    generation: int  # of the template that forked it
    pidfd: int | None  # None where the system has none

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, number)
            else:
                os.kill(self.pid, number)

    def ended(self, seconds: float) -> bool:
        """Has the process ended, or does it within so many seconds?"""
        if self.pidfd is None:
            time.sleep(seconds)
            return True
        return bool(select.select([self.pidfd], [], [], seconds)[0])


class Template:
    """``with Template() as template: ...``. ``layers``: the walls in force, once started; ``walls``: those to use;
    ``device``: where learner code finds its tensors, ``cpu`` or ``npu`` (the emulated one)."""

    def __init__(self, walls: Iterable[str] = LAYERS, device: str = "cpu") -> None:
        self.walls, self.device = tuple(walls), device
        self._other: Template | None = None  # the one for another device
        self._layers: dict[str, tuple[bool, str]] = {}
        self._lock = threading.RLock()
        self._controls: dict[tuple[str, ...], socket.socket] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._end: weakref.finalize | None = None
        self.generation = 0
        self.baselines: dict[tuple[str, ...], procfs.Memory] = {}  # what an empty worker holds, by bans

    def __enter__(self) -> Template:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def on(self, device: str) -> Template:
        """The template for this device: this one, or one that is kept beside it and closed with it."""
        if device == self.device:
            return self
        with self._lock:
            if self._other is None or self._other.device != device:
                self._other = Template(self.walls, device)
            return self._other

    def start(self) -> None:
        """Start the template unless it runs. Costs an ``import torch``, about two seconds."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self.close()
            self._folder = folder = tempfile.mkdtemp(prefix="flashdojo-")
            os.chmod(folder, 0o711)
            ours, theirs = socket.socketpair()
            packages = os.path.dirname(os.path.dirname(torch.__file__))
            command = [sys.executable, "-I", str(WORKER / "template.py"), str(theirs.fileno()), folder, packages]
            with theirs:
                self._process = subprocess.Popen(
                    [*command, self.device, *self.walls],
                    pass_fds=[theirs.fileno()], env=environment(), cwd="/", start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )  # fmt: skip
            self._controls = {(): ours}
            self._end = weakref.finalize(self, _end, self._process, self._controls, folder)
            self.generation += 1
            self.baselines.clear()
            layers = self._answer(ours, START_SECONDS)["layers"]
            self._layers = {name: (bool(ok), str(detail)) for name, (ok, detail) in layers.items()}

    @property
    def layers(self) -> dict[str, tuple[bool, str]]:
        """By layer, whether it is in force and what there is to say; empty before a start. Every device's are alike."""
        return self._layers or (self._other.layers if self._other is not None else {})

    @property
    def place(self) -> tuple[int, str]:
        """The process and the folder of the running template: where to look for what outlived a worker."""
        assert self._process is not None
        return self._process.pid, self._folder

    def fork(self, bans: Iterable[str], order: Order) -> Child:
        """A fresh confined worker under these bans."""
        names = tuple(sorted(set(bans)))
        with self._lock:
            for attempt in (1, 2):
                self.start()
                ours, theirs = socket.socketpair()
                try:
                    with theirs:
                        answer = self._ask(self._profile(names), {"verb": "fork", "order": asdict(order)}, theirs)
                    pid = answer["pid"]
                    pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
                    return Child(pid, ours, answer["scratch"], names, self.generation, pidfd)
                except (OSError, TemplateError):
                    ours.close()
                    if attempt == 2:
                        raise
                    self.close()  # it died: start another
        raise AssertionError

    def bury(self, child: Child) -> tuple[int, float] | None:
        """Kill the worker and remove its folder. Returns its wait status and the seconds of CPU that it used; None when
        the template had ended before, and taken the worker with it."""
        with self._lock:
            child.connection.close()
            current = child.generation == self.generation and child.bans in self._controls
            try:
                if not current:
                    return None
                child.signal(signal.SIGKILL)
                answer = self._ask(self._controls[child.bans], {"verb": "reap", "pid": child.pid})
                return int(answer["status"]), float(answer["cpu"])
            except (OSError, TemplateError):
                return None
            finally:
                if child.pidfd is not None:
                    os.close(child.pidfd)
                    child.pidfd = None

    def close(self) -> None:
        """End the template, every worker and every file of theirs."""
        with self._lock:
            if self._other is not None:
                self._other.close()
            if self._end is not None:
                self._end()
            self._process, self._end = None, None
            self._controls = {}

    def _profile(self, bans: tuple[str, ...]) -> socket.socket:
        if bans not in self._controls:
            ours, theirs = socket.socketpair()
            with theirs:
                self._ask(self._controls[()], {"verb": "profile", "bans": list(bans)}, theirs)
            self._answer(ours, START_SECONDS)
            self._controls[bans] = ours
        return self._controls[bans]

    def _ask(
        self, control: socket.socket, request: dict[str, Any], attached: socket.socket | None = None
    ) -> dict[str, Any]:
        line = json.dumps(request).encode() + b"\n"
        control.settimeout(ANSWER_SECONDS)
        socket.send_fds(control, [line], [attached.fileno()] if attached is not None else [])
        return self._answer(control, ANSWER_SECONDS)

    def _answer(self, control: socket.socket, seconds: float) -> dict[str, Any]:
        control.settimeout(seconds)
        line = b""
        while not line.endswith(b"\n"):
            data = control.recv(65536)
            if not data:
                raise TemplateError("the template ended" + self._last_words())
            line += data
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TemplateError(answer["error"])
        return answer

    def _last_words(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            return ""
        return ": " + self._process.stderr.read()[-2000:].decode(errors="replace")


def environment() -> dict[str, str]:
    """All that the template is told: nothing of the judge's own environment (which may hold the secret)."""
    told = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "FLASHDOJO_NPU": "emulated",  # on an Ascend machine as on any other
        "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    if sys.platform == "darwin":
        told["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"] = "YES"  # Apple's libraries else end a fork of a process with torch
    if "LD_LIBRARY_PATH" in os.environ:
        told["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]  # some interpreters do not start without
    return told


def _end(process: subprocess.Popen[bytes], controls: dict[Any, socket.socket], folder: str) -> None:
    for control in controls.values():
        control.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stderr is not None:
        process.stderr.close()
    shutil.rmtree(folder, ignore_errors=True)
