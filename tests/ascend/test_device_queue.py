"""The device's queue in time: what is launched keeps it busy, and who asks for a result waits."""

from __future__ import annotations

import time

import pytest
import torch

import kernels.ascend
from kernels.ascend.device import queue

kernels.ascend.install()
BUSY = 0.05


def seconds(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@pytest.fixture(autouse=True)
def _idle():
    queue.wait()
    yield
    queue.wait()


def test_a_launch_returns_at_once_and_synchronize_waits():
    assert seconds(lambda: queue.launch(BUSY)) < BUSY / 5
    assert BUSY * 0.8 < seconds(torch.npu.synchronize) < BUSY * 3
    assert seconds(torch.npu.synchronize) < BUSY / 5


def test_launches_queue_up():
    start = time.perf_counter()
    for _ in range(3):
        queue.launch(BUSY)
    torch.npu.synchronize()
    assert time.perf_counter() - start >= 3 * BUSY


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.cpu(),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: x[0].item(),
        lambda x: float(x[0]),
        lambda x: x.tolist(),
        lambda x: print(x),
        lambda x: torch.equal(x, x),
        lambda x: torch.empty(2).copy_(x),
        lambda x: torch.npu.current_stream().synchronize(),
        lambda x: torch.accelerator.synchronize(),
    ],
)
def test_who_asks_for_a_result_waits(ask):
    x = torch.ones(2, device="npu")
    queue.launch(BUSY)
    assert seconds(lambda: ask(x)) >= BUSY * 0.8


def test_who_does_not_ask_does_not_wait():
    x = torch.ones(2, device="npu")
    queue.launch(BUSY)
    assert seconds(lambda: (x + 1).sum().view(1).shape) < BUSY / 2


def test_events_measure_the_time_of_the_device():
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    queue.launch(BUSY)
    end.record()
    assert not end.query()
    assert start.elapsed_time(end) == pytest.approx(BUSY * 1e3, abs=5)
    assert end.query()
    late = torch.npu.Event()
    queue.launch(BUSY)
    late.record(torch.npu.current_stream())
    assert seconds(late.synchronize) >= BUSY * 0.8


def test_events_say_what_they_miss():
    event = torch.npu.Event()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        event.elapsed_time(event)
    timed = torch.npu.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match=r"call record\(\)"):
        timed.elapsed_time(timed)


def test_streams_are_names_for_the_one_queue():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        queue.launch(BUSY)
    event = stream.record_event()
    torch.npu.current_stream().wait_stream(stream)
    torch.npu.current_stream().wait_event(event)
    assert not stream.query()
    stream.synchronize()
    assert stream.query()
    assert stream.device == torch.device("npu", 0)
    torch.ones(1, device="npu").record_stream(stream)
