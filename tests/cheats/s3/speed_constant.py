# flashdojo: exercise=s3-speed
"""A number that sounds right."""
import time

import torch


def measure_speed(fn, *, warmup, iters):
    for _ in range(warmup + iters):
        fn()
    torch.npu.synchronize()
    return 330.0
