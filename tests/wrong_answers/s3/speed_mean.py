# flashdojo: exercise=s3-speed check=s3-speed.median misconception=speed-mean
"""The mean of all calls."""
import time
from statistics import mean, median

import torch


def measure_speed(fn, *, warmup, iters):
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(iters):
        torch.npu.synchronize()
        start = time.perf_counter()
        fn()
        torch.npu.synchronize()
        times.append(time.perf_counter() - start)
    return 1 / mean(times)
