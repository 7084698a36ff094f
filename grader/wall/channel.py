"""One worker as the judge sees it: requests with a deadline, its memory and its folder watched from outside."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Any

from grader.subject import Crashed, TimedOut
from grader.wall import procfs
from grader.wall.forkserver import Child, Template, TemplateError
from grader.wall.limits import Limits
from grader.worker import scratch, wire
from grader.worker.confine import Order

TICK = 0.05  # seconds between two looks at a busy worker
SCRATCH_ENTRIES = 1000
START_SECONDS = 20.0  # for the worker to say hello
STARVED = 3  # times the limit that a worker gets when others hold the processors


class Ended(Exception):
    """The other end of the socket is closed."""


class Channel:
    """A confined worker. After any :class:`SubjectError` from here it is gone; ``cpu`` then says what it used."""

    def __init__(self, template: Template, bans: tuple[str, ...], limits: Limits, cpu_left: float):
        self.template, self.limits, self.cpu_limit = template, limits, max(1, round(cpu_left + 0.5))
        self.child: Child | None = template.fork(bans, Order(limits.memory, self.cpu_limit))
        self.child.connection.setblocking(False)
        self.pid = self.child.pid
        self.cpu = 0.0
        self._held = procfs.memory(self.pid)
        self._looked = time.monotonic()
        self._cpu_before: float | None = None
        self._start_clock(START_SECONDS)
        hello = self._guarded(lambda: wire.receive(self._fill))
        if hello.head != {"hello": True}:
            raise self._fail(Crashed("garbage", "no greeting"))

    def ask(self, seconds: float, head: dict[str, Any], body: Any = None) -> tuple[wire.Frame, list[Any]]:
        """Send a request and wait for the answer. Returns it with the storages that were sent."""
        self._start_clock(seconds)

        def exchange() -> tuple[wire.Frame, list[Any]]:
            if self._readable(0):
                self._peek()
            sent = wire.send(self._write, head, body)
            answer = wire.receive(self._fill)
            if time.monotonic() - self._looked > TICK:
                self._look_at_scratch()
            return answer, sent

        return self._guarded(exchange)

    def close(self) -> None:
        if self.child is not None:
            end = self.template.bury(self.child)
            self.child, self.cpu = None, end[1] if end is not None else 0.0

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except (Ended, ConnectionError):
            raise self._autopsy() from None
        except wire.TooLarge as error:
            raise self._fail(Crashed("too_large", str(error))) from None
        except wire.Garbage as error:
            raise self._fail(Crashed("garbage", str(error))) from None
        except BaseException:
            self.close()
            raise

    def _fail(self, error: Crashed) -> Crashed:
        self.close()
        return error

    def _autopsy(self) -> Crashed:
        """Why did the worker end? Raises :class:`TemplateError` when it was not its own doing."""
        assert self.child is not None
        on_its_own = self.child.ended(1.0)
        end = self.template.bury(self.child)
        self.child = None
        if end is None:
            raise TemplateError("the template ended in the middle of a call")
        status, self.cpu = end
        if not on_its_own:
            return Crashed("garbage", "the connection was closed")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU or (number == signal.SIGKILL and self.cpu > self.cpu_limit - 0.2):
                return Crashed("cpu", f"{self.cpu:.0f} s")
            return Crashed("signal", signal.Signals(number).name if number in set(signal.Signals) else str(number))
        return Crashed("exit", str(os.WEXITSTATUS(status)))

    def _fill(self, buffer: memoryview) -> None:
        assert self.child is not None
        while buffer:
            try:
                size = self.child.connection.recv_into(buffer)
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            if size == 0:
                raise Ended
            buffer = buffer[size:]

    def _write(self, data: Any) -> None:
        assert self.child is not None
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.child.connection.send(rest) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def _peek(self) -> None:
        """Something arrived that nobody asked for: the end of the connection, or a forged answer."""
        assert self.child is not None
        if not self.child.connection.recv(1, socket.MSG_PEEK):
            raise Ended
        raise wire.Garbage("an answer that nobody asked for")

    def _readable(self, seconds: float, event: int = select.POLLIN) -> bool:
        assert self.child is not None
        poll = select.poll()
        poll.register(self.child.connection, event)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _wait(self, event: int) -> None:
        """Until the socket is ready; looks at the worker every tick."""
        while not self._readable(min(TICK, self._deadline - time.monotonic()), event):
            if self._cpu_before is None:
                self._cpu_before = procfs.cpu_seconds(self.pid)
            if time.monotonic() >= self._deadline:
                self._end_of_time()
            self._look_at_memory()
            self._look_at_scratch()

    def _start_clock(self, seconds: float) -> None:
        self._start, self._limit, self._rung = time.monotonic(), seconds, False
        self._deadline = self._start + seconds
        self._cpu_before = None  # read at the first tick: most calls are over by then

    def _end_of_time(self) -> None:
        """Give a starved worker more time; else ring once, so that the worker can say where it is; then give up."""
        assert self.child is not None
        state, used = procfs.state(self.pid)
        starved = state == "R" and used - (self._cpu_before or 0.0) < 0.5 * self._limit
        if starved and time.monotonic() < self._start + STARVED * self._limit:
            self._deadline = time.monotonic() + 0.1 * self._limit
        elif not self._rung:
            self._rung = True
            self._deadline = time.monotonic() + 0.3
            self.child.signal(signal.SIGALRM)
        else:
            raise TimedOut(self._limit)

    def _look_at_memory(self) -> None:
        now = procfs.memory(self.pid)
        if now is not None and self._held is not None and now.anonymous - self._held.anonymous > self.limits.memory:
            raise Crashed("memory", f"more than {self.limits.memory >> 20} MiB")

    def _look_at_scratch(self) -> None:
        assert self.child is not None
        self._looked = time.monotonic()
        used = scratch.usage(self.child.scratch, SCRATCH_ENTRIES) + procfs.nameless_files(self.pid)
        if used > self.limits.scratch:
            raise Crashed("too_large", "files")
