# flashdojo: exercise=s3-speed check=s3-speed.median misconception=speed-mean
"""The mean of the rates."""

import statistics
import time

import torch_npu


def measure_speed(fn, *, warmup: int, iters: int) -> float:
    """Calls of fn() per second on the NPU: 1 / the median time of ``iters`` calls, after ``warmup`` that do not count.

    fn() only launches work on the device and returns at once. Each call is timed until the device has finished it.
    """
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(iters):
        torch_npu.npu.synchronize()
        start = time.perf_counter()
        fn()
        torch_npu.npu.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.mean(1 / t for t in times)
