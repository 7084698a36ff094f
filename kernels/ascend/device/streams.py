"""Streams and events. There is one queue (:mod:`queue`), hence streams are names for it; events are moments in it."""

from __future__ import annotations

from typing import Any

import torch

from kernels.ascend.device import queue
from kernels.ascend.device.refusals import check_device


def synchronize(device: Any = None) -> None:
    """Wait until the device has done all that is queued."""
    check_device(device)
    queue.wait()


class Event:
    """A moment in the device's queue."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any):
        self._timed = enable_timing
        self._reached: float | None = None

    def record(self, stream: Any = None) -> None:
        self._reached = queue.free_at()

    def query(self) -> bool:
        return self._reached is None or queue.reached(self._reached)

    def synchronize(self) -> None:
        if self._reached is not None:
            queue.wait_until(self._reached)

    def wait(self, stream: Any = None) -> None:
        """Work queued after this waits for the event: it does anyway, in the only queue."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two recorded events, as the device saw them."""
        if not (self._timed and end_event._timed):
            raise RuntimeError("elapsed_time needs two events made with enable_timing=True")
        if self._reached is None or end_event._reached is None:
            raise RuntimeError("elapsed_time needs two recorded events: call record() on both first")
        queue.wait_until(max(self._reached, end_event._reached))
        return (end_event._reached - self._reached) * 1e3


class Stream(torch.Stream):
    """A stream of the device; all of them are the one queue."""

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> Stream:
        check_device(device)
        return super().__new__(cls, device=torch.device("npu", 0), priority=priority)

    def synchronize(self) -> None:
        queue.wait()

    def query(self) -> bool:
        return queue.reached(queue.free_at())

    def record_event(self, event: Any = None) -> Any:
        event = event if event is not None else Event()
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Nothing to do: there is one queue."""

    def wait_stream(self, stream: torch.Stream) -> None:
        """Nothing to do: there is one queue."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def current_stream(device: Any = None) -> Stream:
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Stream) -> None:
    """Nothing to do: there is one queue."""


def stream(stream: Stream) -> Stream:
    """A context in which work goes to that stream."""
    return stream
