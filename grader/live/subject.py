"""The learner's functions where they are: called in this very process, with copies of everything they are given."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor

from grader.live.copies import Copies, plain, tensors
from grader.live.device import Device
from grader.live.guard import Forbidden, Guard, differentiate
from grader.subject import Missing, Outcome, Raised, TimedOut, Trace, Where
from grader.threads import one_thread
from grader.worker.observer import Observer, PeakObserver
from grader.worker.program import APPLY, without_backward
from grader.worker.provided import clear


class LiveSubject:
    """:class:`grader.subject.Subject` over a namespace, such as the globals of a notebook.

    ``bans``: rules of the exercise that the guard enforces, at the first call of each name (watching every operator of
    every call would double the time). ``limit``: seconds for one call (main thread only: it
    rests on SIGALRM). ``device``: where the functions get their tensors; ``soc``: the NPU it is meanwhile.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        bans: Iterable[str] = (),
        limit: float = 5.0,
        device: Device | None = None,
        soc: str | None = None,
    ):
        self.namespace, self.bans, self.limit = namespace, tuple(bans), limit
        self.device, self.soc = device or Device(), soc
        self._objects: list[Any] = []
        self._guarded: set[str] = set()

    @property
    def on_real_npu(self) -> bool:
        """Whether learner code computes on a real NPU, so that its speed means something. It may then be given
        ``Provided("forward", {"handle": h, "x": x})``: a call of the constructed object without gradients."""
        return self.device.is_real_npu

    def call(self, name: str, /, *args: Any, observe: bool = False, memory: bool = False, **kwargs: Any) -> Outcome:
        return self._run(name, self._function(name), args, kwargs, observe, memory)

    def timed(self, name: str, /, *args: Any, **kwargs: Any) -> Outcome:
        """Measured by this process's own clock, which the learner could turn: it is no grade."""
        function, used = self._function(name), []

        def measured(*own: Any, **more: Any) -> Any:
            start = time.process_time()
            try:
                return function(*own, **more)
            finally:
                used.append(time.process_time() - start)

        outcome = self._run(name, measured, args, kwargs, False, False)
        outcome.seconds = used[0]
        return outcome

    def beside(self, source: str) -> LiveSubject:
        namespace: dict[str, Any] = {"__name__": "beside"}
        exec(compile(source, "<beside>", "exec"), namespace)  # the course's own
        return LiveSubject(namespace, limit=self.limit, device=self.device, soc=self.soc)

    def construct(self, name: str, /, *args: Any, **kwargs: Any) -> int:
        maker = self._lookup(name)
        args, kwargs = Copies(self.device, self._objects).copy((args, kwargs))
        with self._learner_code():
            self._objects.append(self.device.own(maker(*args, **kwargs)))
        return len(self._objects) - 1

    def state(self, handle: int) -> dict[str, Tensor]:
        with self._learner_code():
            state = dict(self._objects[handle].state_dict())
        return {str(key): self._plain(value) for key, value in state.items()}

    def load_state(self, handle: int, state: Mapping[str, Tensor]) -> None:
        copied = Copies(self.device, self._objects).copy(dict(state))
        with self._learner_code():
            self._objects[handle].load_state_dict(copied)

    def forward(
        self, handle: int, /, *args: Any, observe: bool = False, memory: bool = False, **kwargs: Any
    ) -> Outcome:
        graph = not memory  # a graph would keep every tile: memory is that of inference
        return self._run(f"object {handle}", self._objects[handle], args, kwargs, observe, memory, graph)

    def backward(
        self,
        name: str | int,
        args: Sequence[Any],
        grads: Sequence[Tensor | None],
        wrt: Sequence[int],
        *,
        memory: bool = False,
        observe: bool = False,
        between: Sequence[Any] = (),
    ) -> Outcome:
        function = self._objects[name] if isinstance(name, int) else self._differentiable(name)
        flags: list[tuple[bool, ...]] = []

        def both(*inputs: Any) -> Any:
            leaves = tuple(inputs[i] for i in wrt)
            for leaf in leaves:
                leaf.requires_grad = True
            outputs = function(*inputs)
            if between:
                others = copies.copy(tuple(between))
                function(*(x.requires_grad_() if i in wrt else x for i, x in enumerate(others)))
            returned = list(tensors(outputs))
            flags.append(tuple(t.requires_grad for t in returned))
            pairs = [(t, g) for t, g in zip(returned, copies.copy(tuple(grads)), strict=False) if g is not None]
            if not all(t.requires_grad for t, _ in pairs):
                raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
            found = differentiate(tuple(t for t, _ in pairs), tuple(g for _, g in pairs), leaves)
            return outputs, tuple(found)

        copies = Copies(self.device, self._objects)
        outcome = self._run(f"backward of {name}", both, tuple(args), {}, observe, memory, given=(args, grads))
        outcome.differentiable = flags[0]
        return outcome

    def _plain(self, value: Any) -> Any:
        return plain(value, self.device.name)

    def _lookup(self, name: str) -> Callable[..., Any]:
        if name not in self.namespace:
            raise Missing(name)
        found = self.namespace[name]
        if not callable(found):
            raise Missing(name, type(found).__name__)
        return found

    def _function(self, name: str) -> Callable[..., Any]:
        found = self._lookup(name)
        return found.apply if isinstance(found, type) and issubclass(found, torch.autograd.Function) else found

    def _differentiable(self, name: str) -> Callable[..., Any]:
        found = self._lookup(name)
        if without_backward(found):
            raise Missing(name, without_backward(found))
        return partial(APPLY, found)

    def _run(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        observe: bool,
        memory: bool,
        graph: bool = True,
        given: Any = None,
    ) -> Outcome:
        copies = Copies(self.device, self._objects)
        own_args, own_kwargs = copies.copy(args), copies.copy(kwargs)
        observer = self._observer(copies, memory) if observe or memory else None
        guard = Guard(self.bans) if name not in self._guarded else None
        self._guarded.add(name)
        with self._learner_code(observer, graph, guard):
            start = time.perf_counter()
            value = function(*own_args, **own_kwargs)
            seconds = time.perf_counter() - start
        clear()
        named = [*((str(i), a) for i, a in enumerate(args)), *kwargs.items()]
        outcome = Outcome(
            value=self._plain(value),
            changed=tuple(label for label, original in named if copies.changed(original)),
            differentiable=tuple(t.requires_grad for t in tensors(value)),
            devices=tuple(str(t.device) for t in tensors(value)),
            seconds=seconds,
        )
        if observer is not None and observe:
            inputs = given if given is not None else (args, kwargs)
            origins = observer.provenance.origins(tensors(value), tensors(inputs))
            outcome.trace = Trace(**observer.trace(), origins=tuple(origins))
        if isinstance(observer, PeakObserver):
            outcome.peak_bytes, outcome.held_bytes = observer.peak_bytes, 0
        return outcome

    @staticmethod
    def _observer(copies: Copies, memory: bool) -> Observer:
        if not memory:
            return Observer()
        observer = PeakObserver()
        observer.ignore(copies.storages())
        return observer

    @contextlib.contextmanager
    def _learner_code(
        self, observer: Observer | None = None, graph: bool = True, guard: Guard | None = None
    ) -> Iterator[None]:
        """Silent and timed; what learner code raises comes out as a :class:`SubjectError`."""
        silence = io.StringIO()
        try:
            with (
                contextlib.redirect_stdout(silence),
                contextlib.redirect_stderr(silence),
                torch.random.fork_rng(devices=[]),
                torch.set_grad_enabled(graph),
                one_thread(),
                self.device.soc(self.soc),
                _alarm(self.limit),
                guard or contextlib.nullcontext(),
                observer or contextlib.nullcontext(),
            ):
                yield
        except _Expired as expired:
            raise TimedOut(self.limit, self._where(expired.__traceback__)) from None
        except Forbidden as refusal:
            raise Raised("Forbidden", refusal.message.en, self._where(refusal.__traceback__)) from refusal
        except (Exception, SystemExit) as error:
            text = str(error)[:500]
            raise Raised(type(error).__name__, text, self._where(error.__traceback__)) from None
        if guard is not None and guard.refused is not None:  # the learner caught it
            raise Raised("Forbidden", guard.refused.message.en, self._where(guard.refused.__traceback__))

    def _where(self, traceback: TracebackType | None) -> Where | None:
        deepest = None
        while traceback is not None:
            if traceback.tb_frame.f_globals is self.namespace:
                deepest = Where(_cell(traceback.tb_frame), traceback.tb_lineno)
            traceback = traceback.tb_next
        return deepest


def _cell(frame: FrameType) -> int | None:
    """The execution count of the cell that this frame's code came from; None outside a notebook."""
    filename = frame.f_code.co_filename
    numbered = re.fullmatch(r"<cell (\d+)>", filename)
    if numbered:
        return int(numbered.group(1))
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell.compile, "_filename_map", {}).get(filename) if shell else None


class _Expired(BaseException):
    """The alarm rang. Not an Exception, so that a learner's ``except Exception`` lets it through."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise _Expired

    before = signal.signal(signal.SIGALRM, ring)
    rest, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    start = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rest:
            signal.setitimer(signal.ITIMER_REAL, max(rest - (time.monotonic() - start), 1e-3), interval)
