# flashdojo: exercise=s3-speed check=s3-speed.warm-up misconception=speed-no-warm-up
"""The slow first calls are timed."""
import time
from statistics import mean, median

import torch


def measure_speed(fn, *, warmup, iters):
    iters += warmup
    times = []
    for _ in range(iters)[:iters - warmup]:
        torch.npu.synchronize()
        start = time.perf_counter()
        fn()
        torch.npu.synchronize()
        times.append(time.perf_counter() - start)
    return 1 / median(times)
