# flashdojo: exercise=s3-speed check=s3-speed.rate misconception=speed-not-synchronised
"""The clock is read while the device is still busy."""
import time
from statistics import mean, median

import torch


def measure_speed(fn, *, warmup, iters):
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(iters):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return 1 / median(times)
