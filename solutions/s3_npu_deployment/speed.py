import statistics
import time

import torch_npu


def measure_speed(fn, *, warmup: int, iters: int) -> float:
    """Calls of fn() per second on the NPU: 1 / the median time of ``iters`` calls, after ``warmup`` that do not count.

    fn() only launches work on the device and returns at once. Each call is timed until the device has finished it.
    """
    # zh: 先预热；每次计时：同步、读表、调用、同步、读表。取中位数，返回每秒次数。
    # en: Warm up. For each timed call: synchronise, read the clock, call, synchronise, read the clock. Take the
    # en: median and return calls per second.
    ### BEGIN SOLUTION
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(iters):
        torch_npu.npu.synchronize()
        start = time.perf_counter()
        fn()
        torch_npu.npu.synchronize()
        times.append(time.perf_counter() - start)
    return 1 / statistics.median(times)
    ### END SOLUTION
