"""Grading on this machine: here, or side by side in several processes. A process that dies is replaced.

Processes and not threads: half of the work is the judge's own, which Python would do one thread at a time.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TypeVar

from grader.batch.bench import ATTEMPTS, Bench
from grader.batch.plan import Job, Plan, Record, ungraded
from grader.text import Text, say
from grader.wall.workers import Template

Item = TypeVar("Item")
Graded = Iterator[tuple[Item, Record]]
Load = Callable[[Item], Job]  # reads a submission; done late, so that not all lie in memory


def here(plan: Plan, items: Iterable[Item], load: Load[Item], template: Template | None = None) -> Graded[Item]:
    """One after the other in this process."""
    with Bench(plan, template) as bench:
        for item in items:
            yield item, bench.grade(load(item))


def side_by_side(plan: Plan, items: Iterable[Item], load: Load[Item], jobs: int) -> Graded[Item]:
    """In ``jobs`` processes, in the order in which they are done. Whoever stops listening ends what is under way."""
    idle: queue.SimpleQueue[Assistant] = queue.SimpleQueue()

    def grade(item: Item) -> Record:
        assistant = idle.get()
        try:
            return assistant.grade(load(item))
        finally:
            idle.put(assistant)

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for _ in range(jobs):
            idle.put(stack.enter_context(Assistant(plan)))
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        waiting = {pool.submit(grade, item): item for item in items}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


class Assistant:
    """A bench in a process of its own, started when it is first needed."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._closed = False

    def __enter__(self) -> Assistant:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._closed = True
        self._end()

    def grade(self, job: Job) -> Record:
        """As :meth:`Bench.grade`. When the process dies over it, another one begins it anew."""
        for _ in range(ATTEMPTS):
            try:
                connection = self._connected()
                connection.send(job)
                return connection.recv()
            except (EOFError, OSError):
                self._end()
            if self._closed:
                break
        return Record(ungraded(job, "failed", _died(), stage=self.plan.stage))

    def _connected(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context("spawn")  # a fork of a process with threads and torch may hang
            self._connection, theirs = context.Pipe()
            with theirs:
                self._process = context.Process(target=_serve, args=(self.plan, theirs), daemon=True)
                self._process.start()
        return self._connection

    def _end(self) -> None:
        process, connection, self._process, self._connection = self._process, self._connection, None, None
        if process is not None:
            process.terminate()
            process.join()
        if connection is not None:
            connection.close()


def _serve(plan: Plan, connection: Connection) -> None:
    """The assistant's process: until the other end hangs up, which it does however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that the person sees
    with Bench(plan) as bench, suppress(EOFError, OSError):
        while True:
            connection.send(bench.grade(connection.recv()))


def _died() -> Text:
    return say(
        "评这份时评分进程死了 {times} 次（内存不足？）。减少 --jobs 再评一次，其余成绩都还在。",
        "the grading process died {times} times over this one (out of memory?). Grade again with fewer --jobs; "
        "the rest is kept.",
        times=ATTEMPTS,
    )
