"""A learner's program in a confined process: the :class:`grader.subject.Subject` that grades are made with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from torch import Tensor

from grader.subject import Crashed, Missing, Outcome, Raised, SubjectError, TimedOut, Trace, Where
from grader.wall import procfs
from grader.wall.channel import Channel
from grader.wall.forkserver import Template, TemplateError
from grader.wall.limits import Budget, Limits
from grader.worker.wire import Frame, as_buffer, clean

__all__ = ["Budget", "Limits", "LoadError", "LoadReport", "Template", "TemplateError", "WorkerSubject"]

FILE_GROWTH_CAP = 8 << 20  # bytes of library code that a call may page in without it being counted
FILES_HELD_CAP = 24 << 20  # bytes of files that imports may have mapped; more could be dropped to make room in a call
HELD_UNWATCHED = 6 << 20  # bytes that a program may hold before it is asked which of them a call uses
NAMES_TOLD = 1000  # of operators, or lengths, in what an observer tells
ANSWER_HEAD = 1 << 20  # bytes that an answer may write beside its tensors
HELD_UNKNOWN = 34 << 20  # bytes of imports to leave out where the kernel cannot tell that


@dataclass(frozen=True)
class LoadError:
    """One cell (or statement) that failed while the program was loaded."""

    where: Where | None
    kind: str
    text: str


@dataclass
class LoadReport:
    errors: list[LoadError] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class WorkerSubject:
    """The program ``cells`` = ``(number or None, source, filename)`` under ``bans`` (softmax, autograd, numpy).

    Subjects of one submission share a ``budget`` of CPU time. Loaded when it is first used. After a crash or a time-out
    the next use begins with a fresh worker; a program whose loading timed out or crashed, or that has used up its CPU
    time, raises the same error from then on.
    """

    def __init__(
        self,
        template: Template,
        cells: Sequence[tuple[int | None, str, str]],
        bans: Sequence[str] = (),
        limits: Limits | None = None,
        budget: Budget | None = None,
    ):
        self.template, self.cells, self.bans = template, [tuple(cell) for cell in cells], tuple(sorted(set(bans)))
        self.limits = limits or Limits()
        self.budget = budget or Budget(self.limits.submission)
        self._report = LoadReport()
        self._dead: SubjectError | None = None
        self._channel: Channel | None = None
        self._generation = 0
        self._handles: list[tuple[int, int]] = []  # (generation of the worker, its number there)

    def __enter__(self) -> WorkerSubject:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    @property
    def load_report(self) -> LoadReport:
        self._worker()
        return self._report

    def close(self) -> None:
        """Kill the worker and remove its files."""
        if self._channel is not None:
            self._channel.close()
            self.budget.closed(self._channel.pid, self._channel.cpu)
            self._channel = None

    def call(self, name: str, /, *args: Any, observe: bool = False, memory: bool = False, **kwargs: Any) -> Outcome:
        return self._run({"verb": "call", "name": name}, args, kwargs, observe, memory)

    def timed(self, name: str, /, *args: Any, **kwargs: Any) -> Outcome:
        """The CPU time comes from the kernel's clock of the worker's process and all of its threads, read here before
        and after: neither a turned clock nor a thread helps. Where there is none (macOS) it is the time that passes."""
        _, sent = self._ask(self.limits.call, {"verb": "hold", "name": name}, (list(args), kwargs))
        channel = self._worker()
        before = procfs.process_clock(channel.pid)
        self._ask(self.limits.call, {"verb": "go"})
        seconds = procfs.process_clock(channel.pid) - before
        frame, _ = self._ask(self.limits.call, {"verb": "fetch"})
        changed = self._changed(args, kwargs, sent, frame.head.get("digests"))
        return Outcome(value=frame.body, changed=changed, seconds=seconds)

    def beside(self, source: str) -> WorkerSubject:
        return WorkerSubject(self.template, [(None, source, "beside.py")], self.bans, self.limits)

    def construct(self, name: str, /, *args: Any, **kwargs: Any) -> int:
        frame, _ = self._ask(self.limits.call, {"verb": "construct", "name": name}, (args, kwargs))
        index = frame.head.get("handle")
        self._handles.append((self._generation, index if type(index) is int else -1))
        return len(self._handles) - 1

    def state(self, handle: int) -> dict[str, Tensor]:
        frame, _ = self._ask(self.limits.call, {"verb": "state", "handle": self._object(handle)})
        state = frame.body
        if not isinstance(state, dict) or not all(type(k) is str and type(v) is Tensor for k, v in state.items()):
            raise Crashed("garbage", "a state_dict of other things than tensors")
        return state

    def load_state(self, handle: int, state: Mapping[str, Tensor]) -> None:
        plain = {key: value.detach() for key, value in state.items()}
        self._ask(self.limits.call, {"verb": "load_state", "handle": self._object(handle)}, plain)

    def forward(
        self, handle: int, /, *args: Any, observe: bool = False, memory: bool = False, **kwargs: Any
    ) -> Outcome:
        """As :meth:`call`, of the object itself. With ``memory`` it runs without recording a graph."""
        head = {"verb": "forward", "handle": self._object(handle), "measured": memory}
        return self._run(head, args, kwargs, observe, memory)

    def backward(
        self, name: str | int, args: Sequence[Any], grads: Sequence[Tensor | None], wrt: Sequence[int],
        *, memory: bool = False, observe: bool = False, between: Sequence[Any] = (),
    ) -> Outcome:
        head = {"verb": "backward", "name": name, "wrt": list(wrt)}
        return self._run(head, tuple(args), None, observe, memory, (list(args), list(grads), list(between)))

    def _run(
        self, head: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None, observe: bool, memory: bool,
        body: Any = None,
    ) -> Outcome:
        body = (list(args), kwargs) if body is None else body
        before = self._before() if memory else None
        written = procfs.written(self._channel.pid) if before is not None and self._channel is not None else None
        frame, sent = self._ask(self.limits.call, head | {"observe": observe}, body, before=before)
        answer = frame.head
        outcome = Outcome(
            value=frame.body,
            changed=self._changed(args, kwargs or {}, sent, answer.get("digests")),
            differentiable=tuple(flag is True for flag in _list(answer.get("differentiable"))),
            devices=tuple(clean(name, 20) for name in _list(answer.get("devices"))),
            seconds=_number(answer.get("seconds")),
            trace=_trace(answer.get("trace")) if observe else None,
        )
        if before is not None:
            self._fill_in_memory(outcome, before, written, frame, sent)
        return outcome

    # -- the worker ----------------------------------------------------------------------------------------------

    def _worker(self) -> Channel:
        if self._dead is not None:
            raise self._dead
        left = self.budget.left
        if left <= 0:
            self.close()
            self._dead = Crashed("cpu", f"{self.budget.seconds:g} s")
            raise self._dead
        if self._channel is None:
            self._channel = Channel(self.template, self.bans, self.limits, left)
            self.budget.opened(self._channel.pid)
            self._generation += 1
            try:
                frame, _ = self._ask(self.limits.load, {"verb": "load", "cells": self.cells})
            except SubjectError as error:
                self._dead = error
                self.close()
                raise
            self._report = _load_report(frame.head)
        return self._channel

    def _ask(
        self, seconds: float, head: dict[str, Any], body: Any = None, before: Any = None
    ) -> tuple[Frame, list[Any]]:
        channel = self._channel if head["verb"] == "load" or before is not None else self._worker()
        assert channel is not None
        try:
            frame, sent = channel.ask(seconds, head, body)
            self._raise_what_happened(frame.head, seconds)
        except (TimedOut, Crashed, TemplateError):
            if channel.child is None:
                self.close()
            raise
        return frame, sent

    def _raise_what_happened(self, head: dict[str, Any], seconds: float) -> None:
        if head.get("ok") is True:
            return
        if "missing" in head:
            found = head.get("found")
            raise Missing(clean(head["missing"], 200), clean(found, 200) if found is not None else None)
        if isinstance(head.get("raised"), dict):
            error = _load_error(head["raised"])
            raise Raised(error.kind, error.text, error.where)
        if head.get("unsendable") in ("garbage", "too_large"):
            raise Crashed(head["unsendable"], clean(head.get("detail"), 300))
        self.close()
        if head.get("timeout") is True:
            raise TimedOut(seconds, _where(head.get("where")))
        raise Crashed("garbage", "an answer that is none")

    def _object(self, handle: int) -> int:
        self._worker()
        generation, index = self._handles[handle]
        if generation != self._generation:
            raise Crashed("exit", "the object went with the process that held it")
        return index

    # -- memory --------------------------------------------------------------------------------------------------

    def _before(self) -> procfs.Memory | None:
        """Make the worker give back what is free, then start the measurement. Its inputs are sent after this."""
        channel = self._worker()
        self._ask(self.limits.call, {"verb": "prepare"})
        before = procfs.memory(channel.pid)
        if before is None or not procfs.reset_peak(channel.pid):
            return None
        if self._held(before) > HELD_UNWATCHED:
            procfs.forget_touched(channel.pid)
        return before

    def _held(self, before: procfs.Memory) -> int:
        return max(0, before.anonymous - self._empty_worker().anonymous)

    def _fill_in_memory(
        self, outcome: Outcome, before: procfs.Memory, written: int | None, frame: Frame, sent: list[Any]
    ) -> None:
        assert self._channel is not None
        after = procfs.memory(self._channel.pid)
        if after is None:
            return
        answer = sum(s.nbytes() for s in frame.storages)
        own = sum(s.nbytes() for s in sent) + 2 * answer
        paged_in = min(max(0, after.files - before.files), FILE_GROWTH_CAP)
        files = max(0, before.files - self._empty_worker().files - FILES_HELD_CAP)
        outcome.peak_bytes = max(0, after.peak - (before.resident - files) - own - paged_in)
        now = procfs.written(self._channel.pid)
        if written is not None and now is not None:  # into files: memory by another name
            outcome.peak_bytes += max(0, now - written - answer - ANSWER_HEAD)
        held = self._held(before)
        if held > HELD_UNWATCHED:  # imports lie idle during a call; a buffer kept to work in does not
            touched = procfs.touched(self._channel.pid)
            freed = max(0, before.anonymous - after.anonymous)  # in the call: used, as likely as not
            held = min(held, touched + freed) if touched is not None else max(0, held - HELD_UNKNOWN)
        outcome.held_bytes = held

    def _empty_worker(self) -> procfs.Memory:
        """What a worker without a program holds; measured once per template and bans."""
        known = self.template.baselines
        if self.bans not in known:
            empty = WorkerSubject(self.template, [], self.bans)
            try:
                empty._ask(empty.limits.call, {"verb": "prepare"})
                before = procfs.memory(empty._worker().pid)
            finally:
                empty.close()
            known[self.bans] = before or procfs.Memory(0, 0, 0, 0)
        return known[self.bans]

    @staticmethod
    def _changed(
        args: tuple[Any, ...], kwargs: dict[str, Any], sent: list[Any], digests: Any
    ) -> tuple[str, ...]:
        found = dict(zip((s._cdata for s in sent), _list(digests), strict=False))
        changed = {
            s._cdata for s in sent if found.get(s._cdata) != hashlib.blake2b(as_buffer(s), digest_size=16).hexdigest()
        }
        named = [*((str(i), a) for i, a in enumerate(args)), *kwargs.items()]
        return tuple(label for label, value in named if changed & set(_storages(value)))


def _storages(value: Any) -> list[int]:
    if isinstance(value, Tensor):
        return [value.untyped_storage()._cdata]
    if isinstance(value, (list, tuple)):
        return [key for item in value for key in _storages(item)]
    if isinstance(value, Mapping):
        return [key for item in value.values() for key in _storages(item)]
    return []


def _load_report(head: dict[str, Any]) -> LoadReport:
    errors = [_load_error(entry) for entry in _list(head.get("errors")) if isinstance(entry, dict)]
    return LoadReport(errors, [clean(name, 200) for name in _list(head.get("names"))])


def _load_error(entry: dict[str, Any]) -> LoadError:
    kind, text = clean(entry.get("kind"), 100) or "Exception", clean(entry.get("text"), 500)
    return LoadError(_where(entry.get("where")), kind, text)


def _where(place: Any) -> Where | None:
    if not isinstance(place, dict):
        return None
    cell, line = place.get("cell"), place.get("line")
    cell = None if cell is None else _natural(cell) or None
    return Where(cell, line) if type(line) is int and 1 <= line <= 10**7 else None


def _trace(found: Any) -> Trace:
    if not isinstance(found, dict):
        return Trace()
    return Trace(
        largest=_natural(found.get("largest")),
        largest_shape=tuple(_natural(n) for n in _list(found.get("largest_shape"))[:32]),
        largest_op=clean(found.get("largest_op"), 100),
        flops=_natural(found.get("flops")),
        matmuls={
            (_natural(b), _natural(m), _natural(k), _natural(n))
            for b, m, k, n in (product for product in _list(found.get("matmuls")) if len(_list(product)) == 4)
        },
        exponentials={int(key): n for key, n in _counts(found.get("exponentials")).items() if key.isdecimal()},
        operators=_counts(found.get("operators")),
        origins=tuple(clean(name, 80) for name in _list(found.get("origins"))),
    )


def _counts(found: Any) -> dict[str, int]:
    """Numbers by name."""
    if not isinstance(found, dict):
        return {}
    return {key: _natural(n) for key, n in list(found.items())[:NAMES_TOLD] if type(key) is str and len(key) <= 80}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _natural(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0


def _number(value: Any) -> float:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e9 else 0.0
