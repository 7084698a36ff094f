"""The worker's loop: one request, one answer, until the judge hangs up.

Everything here shares the process with learner code, so nothing that it answers is believed without checking. What it
cannot do is learn the expected values: they are never sent.
"""

from __future__ import annotations

import gc
import hashlib
import random
import signal
import socket
import time
from contextlib import nullcontext
from typing import Any

import numpy
import torch
from torch import Tensor

from . import curtains, place, provided, wire
from .memory import trim, warm_up
from .observer import Observer
from .program import Missing, OutOfTime, Program, report

MATMULS_TOLD, ORIGINS_TOLD = 50_000, 16


def start_alike() -> None:
    """Every worker draws the same random numbers. The first time, in the template, this takes 12 ms."""
    random.seed(0)
    numpy.random.seed(0)
    torch.default_generator.manual_seed(0)


def digest(storage: torch.UntypedStorage) -> str:
    return hashlib.blake2b(wire.as_buffer(storage), digest_size=16).hexdigest()


class Worker:
    """Answers ``load prepare call construct state load_state forward backward hold go fetch``."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.program: Program | None = None
        self.objects: list[Any] = []
        self.held: wire.Frame | None = None  # a call that waits for its start
        self.result: Any = None  # of it, until it is fetched
        self.patience = Patience()

    def serve(self) -> None:
        start_alike()
        wire.send(self.connection.sendall, {"hello": True})
        while True:
            try:
                frame = wire.receive(self._fill, provided=True)
            except EOFError:
                return
            self._answer(frame)

    def _fill(self, buffer: memoryview) -> None:
        while buffer:
            size = self.connection.recv_into(buffer)
            if size == 0:
                raise EOFError
            buffer = buffer[size:]

    def _answer(self, frame: wire.Frame) -> None:
        verb = str(frame.head["verb"])
        head: dict[str, Any]
        value: Any = None
        try:
            with self.patience:
                head, value = getattr(self, "do_" + verb)(frame)
            wire.send(self.connection.sendall, head, value)
            return
        except wire.Unsendable as error:
            head = {"unsendable": error.reason, "detail": error.detail[:300]}
        except Missing as error:
            head = {"missing": error.name, "found": error.found}
        except OutOfTime as error:
            head = {"timeout": True, "where": self.program.loop(error) if self.program else None}
        except BaseException as error:
            head = {"raised": report(error, self.program.where(error) if self.program else None)}
        finally:
            provided.clear()
        wire.send(self.connection.sendall, head)

    def do_load(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        self.program = Program([(number, source, filename) for number, source, filename in frame.head["cells"]])
        self.program.run()
        torch.set_num_threads(1)  # whatever a cell of the notebook asked for
        return {"ok": True, "errors": self.program.errors[:200], "names": self.program.names()}, None

    def do_prepare(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        """Before the memory of a call is measured: page in torch's kernels, give back what is free."""
        warm_up()
        gc.collect()
        trim()
        return {"ok": True}, None

    def do_call(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        args, kwargs = place.current.inward(frame.body)
        return self._run(frame, self._program.function(frame.head["name"]), args, kwargs)

    def do_hold(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        """The arguments of a call whose time is measured. The judge does that, by the clock of this process: between
        ``go`` and its answer nothing but learner code runs."""
        self._program.function(frame.head["name"])  # raises when there is none
        self.held, self.result = frame, None
        return {"ok": True}, None

    def do_go(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        assert self.held is not None
        args, kwargs = place.current.inward(self.held.body)
        function = self._program.function(self.held.head["name"])
        if curtains.other_threads():
            raise RuntimeError("threads are not allowed: they would work while nobody measures")
        value = settled(function(*args, **kwargs))
        self.result = plain(place.current.outward(value))  # complete: nothing is left to do when it is fetched
        return {"ok": True}, None

    def do_fetch(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        assert self.held is not None
        return {"ok": True, "digests": [digest(storage) for storage in self.held.storages]}, self.result

    def do_construct(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        args, kwargs = frame.body
        args, kwargs = place.current.inward((args, kwargs))
        self.objects.append(place.current.own(self._program.constructor(frame.head["name"])(*args, **kwargs)))
        return {"ok": True, "handle": len(self.objects) - 1}, None

    def do_state(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        state = self.objects[frame.head["handle"]].state_dict()
        return {"ok": True}, {str(key): plain(place.current.outward(value)) for key, value in state.items()}

    def do_load_state(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        self.objects[frame.head["handle"]].load_state_dict(frame.body)
        return {"ok": True}, None

    def do_forward(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        args, kwargs = place.current.inward(frame.body)
        # A graph would keep every tile: memory is that of inference.
        with torch.no_grad() if frame.head.get("measured") else nullcontext():
            return self._run(frame, self.objects[frame.head["handle"]], args, kwargs)

    def do_backward(self, frame: wire.Frame) -> tuple[dict[str, Any], Any]:
        args, grads, between = place.current.inward(frame.body)
        wrt = frame.head["wrt"]
        name = frame.head["name"]
        function = self.objects[name] if isinstance(name, int) else self._program.differentiable(name)
        outputs: list[Any] = []

        def both() -> Any:
            inputs = tuple(args[i].requires_grad_() for i in wrt)
            outputs.append(function(*args))
            if between:
                function(*(x.requires_grad_() if i in wrt else x for i, x in enumerate(between)))
            pairs = [(t, g) for t, g in zip(tensors_in(outputs[0]), grads, strict=False) if g is not None]
            found = torch.autograd.grad([t for t, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
            return outputs[0], found

        return self._run(frame, both, (), {}, outputs, (args, grads))

    @property
    def _program(self) -> Program:
        if self.program is None:
            raise RuntimeError("no program was loaded")
        return self.program

    def _run(
        self,
        frame: wire.Frame,
        function: Any,
        args: Any,
        kwargs: Any,
        outputs: list[Any] | None = None,
        given: Any = None,
    ) -> tuple[dict[str, Any], Any]:
        observer = Observer() if frame.head.get("observe") else None
        if observer is not None and curtains.other_threads():
            raise RuntimeError("threads are not allowed: what they compute cannot be seen")
        start = time.perf_counter()
        with observer if observer is not None else nullcontext():
            value = settled(function(*args, **kwargs))
        seconds = time.perf_counter() - start
        trace = observer.trace() if observer is not None else None
        if observer is not None and trace is not None:
            trace["matmuls"] = list(trace["matmuls"])[:MATMULS_TOLD]
            inputs = tensors_in(given if given is not None else (args, kwargs))
            trace["origins"] = observer.provenance.origins(tensors_in(value)[:ORIGINS_TOLD], inputs)
        shown = outputs[0] if outputs is not None else value
        head = {
            "ok": True,
            "seconds": seconds,
            "digests": [digest(storage) for storage in frame.storages],
            "differentiable": [bool(t.requires_grad) for t in tensors_in(shown)],
            "devices": [str(t.device) for t in tensors_in(value)],
            "trace": trace,
        }
        return head, plain(place.current.outward(value))


def tensors_in(value: Any, depth: int = 0) -> list[Tensor]:
    kind = type(value)
    if issubclass(kind, Tensor):
        return [value]
    if depth > wire.DEPTH_CAP or not issubclass(kind, (list, tuple, dict)):
        return []
    return [t for item in (value.values() if issubclass(kind, dict) else value) for t in tensors_in(item, depth + 1)]


def settled(value: Any, depth: int = 0) -> Any:
    """Tuples and lists of the learner's own kinds become plain ones, once, so that all who look see the same."""
    if depth > wire.DEPTH_CAP:
        return value
    for kind in (tuple, list):
        if issubclass(type(value), kind):
            return kind(settled(item, depth + 1) for item in kind.__iter__(value))
    if issubclass(type(value), dict):
        return {key: settled(item, depth + 1) for key, item in dict.items(value)}
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """The value with every tensor compact, so that a view of a large buffer does not send the buffer."""
    if depth > wire.DEPTH_CAP:
        return value
    if type(value) in (Tensor, torch.nn.Parameter):
        if value.layout is not torch.strided or value.device.type != "cpu":
            return value
        if value.numel() * value.element_size() > wire.PAYLOAD_CAP:
            return value
        compact = value.is_contiguous() and value.untyped_storage().nbytes() == value.numel() * value.element_size()
        return value.detach() if compact else value.detach().clone(memory_format=torch.contiguous_format)
    if issubclass(type(value), tuple):
        return tuple(plain(item, depth + 1) for item in value)
    if issubclass(type(value), list):
        return [plain(item, depth + 1) for item in value]
    if issubclass(type(value), dict):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    return value


class Patience:
    """While learner code runs (``with patience:``), the judge's signal raises :class:`OutOfTime` in it."""

    def __init__(self) -> None:
        self.running = False
        signal.signal(signal.SIGALRM, self._ring)

    def __enter__(self) -> None:
        self.running = True

    def __exit__(self, *_: Any) -> None:
        self.running = False

    def _ring(self, *_: Any) -> None:
        if self.running:
            self.running = False
            raise OutOfTime
