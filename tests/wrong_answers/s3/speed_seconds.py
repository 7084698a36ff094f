# flashdojo: exercise=s3-speed check=s3-speed.rate misconception=speed-inverted
"""Seconds per call instead of calls per second."""
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
    return median(times)
