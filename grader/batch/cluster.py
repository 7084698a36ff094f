"""Grading on a Dask cluster that is there already. Each of its workers keeps one bench, and grades one at a time.

A worker that dies has its submissions graded again by another: the scheduler sees to it.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from distributed import Client, Future
from distributed.comm import get_address_host_port

from grader import results
from grader.batch.bench import Bench
from grader.batch.plan import Job, Lost, Plan, Record, ungraded
from grader.judging.grade import Refused, require_clone
from grader.text import listed, say

Item = TypeVar("Item")

CONNECT = 10.0  # seconds for the scheduler to answer, and for a first worker to appear
ALONE = 60.0  # seconds without any worker after which nobody is waited for
LOOK = 5.0  # seconds between two looks at the cluster while nothing comes back
AHEAD = 64  # submissions that are sent before they are asked for, beside two for each worker's thread

_turn = threading.Lock()
_bench: Bench | None = None  # of this worker


def graded(
    plan: Plan, items: Iterable[Item], load: Callable[[Item], Job], address: str
) -> Iterator[tuple[Item, Record]]:
    """Results in the order in which they are done. Raises :class:`Refused` when the cluster cannot be reached or runs
    another version, :class:`Lost` when it goes away."""
    with _connected(address) as client:
        threads = _fit_to_grade(client, plan, address)
        waiting: dict[Future, tuple[Item, Job]] = {}
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        rest = iter(items)

        def send() -> None:
            for item in rest:
                job = load(item)
                future = client.submit(grade_there, plan, job, plan.identity(), pure=False)
                waiting[future] = item, Job(job.path, job.student)
                future.add_done_callback(done.put)
                return

        for _ in range(AHEAD + 2 * threads):
            send()
        while waiting:
            future = _next(client, done, address)
            item, job = waiting.pop(future)
            yield item, _record(future, plan, job, address)
            send()


def grade_there(plan: Plan, job: Job, identity: dict[str, Any]) -> Record:
    """On a worker. Raises when it runs another version than the one who asks."""
    global _bench
    differences = _differences(plan, identity)
    if differences:
        raise RuntimeError(f"another version on this worker: {'; '.join(differences)}")
    with _turn:
        if _bench is None or _bench.plan != plan:
            if _bench is not None:
                _bench.close()
            _bench = Bench(plan)
        return _bench.grade(job)


def _differences(plan: Plan, identity: dict[str, Any]) -> list[str]:
    """On a worker: what results there would follow from and here not."""
    require_clone()
    return [f"{name} {str(own)[:16]}" for name, own in plan.identity().items() if own != identity[name]]


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)  # what matters of it is said here, in one line
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the size of a submission
            try:
                _knock(address)
                client = Client(address, timeout=CONNECT, set_as_default=False)
            except (OSError, ValueError, TypeError) as error:
                raise Refused(
                    say(
                        "连不上 Dask 调度器 {address}（{why}）。请检查地址，或去掉 --scheduler 在本机评分。",
                        "the Dask scheduler {address} cannot be reached ({why}). Check the address, or leave "
                        "--scheduler out to grade here.",
                        address=address,
                        why=results.clean(error).split("\n")[0][:120] or type(error).__name__,
                    )
                ) from None
            try:
                yield client
            finally:
                client.close(timeout=CONNECT)
    finally:
        log.setLevel(before)


def _knock(address: str) -> None:
    """Raises at once for what is no address or where nobody listens: Dask would go on trying for as long as it may."""
    scheme, _, _ = address.rpartition("://")
    if scheme not in ("", "tcp", "tls"):
        raise ValueError(f"{scheme}:// is none of tcp://, tls://")
    host, port = get_address_host_port(address)
    socket.create_connection((host, port), timeout=CONNECT).close()


def _fit_to_grade(client: Client, plan: Plan, address: str) -> int:
    """The number of threads of all workers; raises :class:`Refused` unless each would grade as we do."""
    try:
        client.wait_for_workers(1, timeout=CONNECT)
    except TimeoutError:
        raise Refused(
            say(
                "调度器 {address} 没有 worker。请先在克隆里启动：dask worker {address} --nthreads 1",
                "the scheduler {address} has no workers. Start some in a clone first: dask worker {address} "
                "--nthreads 1",
                address=address,
            )
        ) from None
    answers = client.run(_differences, plan, plan.identity(), on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException) or answer:
            raise Refused(
                say(
                    "Dask worker {worker} 与这里的版本不同（{what}）。请让它使用同一提交的克隆和同样的依赖。",
                    "the Dask worker {worker} is not of the same version ({what}). Give it a clone of the same commit "
                    "and the same packages.",
                    worker=worker,
                    what=listed(answer) if isinstance(answer, list) else results.clean(answer)[:200],
                )
            )
    return sum(client.nthreads().values())


def _next(client: Client, done: queue.SimpleQueue[Future], address: str) -> Future:
    """The next one that came back. Waits for workers that may come again, but not for ever."""
    alone = 0.0
    while True:
        try:
            return done.get(timeout=LOOK)
        except queue.Empty:
            alone = 0.0 if _has_workers(client) else alone + LOOK
        if alone >= ALONE:
            raise Lost(
                say(
                    "集群 {address} 已没有 worker。已完成的结果都留着，worker 恢复后再运行一次即可继续。",
                    "the cluster {address} has no workers any more. What is done is kept: run the same command again "
                    "when they are back.",
                    address=address,
                )
            )


def _has_workers(client: Client) -> bool:
    try:
        return bool(client.nthreads())
    except Exception:  # the connection is being made again, or is gone: then the futures say so
        return False


def _record(future: Future, plan: Plan, job: Job, address: str) -> Record:
    if future.status == "finished":
        return future.result()
    if future.status in ("cancelled", "lost"):
        raise Lost(
            say(
                "与调度器 {address} 的连接断了。已完成的结果都留着，再运行一次即可继续。",
                "the connection to the scheduler {address} is lost. What is done is kept: run the same command again.",
                address=address,
            )
        )
    error = future.exception()
    message = say(
        "在集群上没有评成：{kind}: {text}。这不是提交的问题，请再评一次。",
        "could not be graded on the cluster: {kind}: {text}. The submission is not to blame; grade again.",
        kind=type(error).__name__,
        text=results.clean(error),
    )
    return Record(ungraded(job, "failed", message, stage=plan.stage))
