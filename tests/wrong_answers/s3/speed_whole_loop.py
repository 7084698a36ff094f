# flashdojo: exercise=s3-speed check=s3-speed.median misconception=speed-mean
"""One clock around the whole loop, as the article has it, though synchronised."""
import time

import torch_npu


def measure_speed(fn, *, warmup, iters):
    for _ in range(warmup):
        fn()
    torch_npu.npu.synchronize()
    start_time = time.time()
    for _ in range(iters):
        fn()
    torch_npu.npu.synchronize()
    end_time = time.time()
    return iters / (end_time - start_time)
