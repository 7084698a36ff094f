"""What does the emulated NPU cost? The same module on the CPU and on the device, and what starting it takes.

    python -m benchmarks.npu_device [--rounds 60] [--threads 2]

A transformer block of PyTorch (d_model 768, 12 heads, feed-forward 3072, no dropout) on [2, 128, 768], float32,
forward and backward. CPU and NPU take turns, in an order that changes, so that a machine that gets slower does so for
both; the table shows medians. Start-up is that of ``import kernels.ascend`` in new processes that have imported torch.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import kernels.ascend

START_UP = """
import time, torch
start = time.perf_counter()
import kernels.ascend
print(time.perf_counter() - start)
"""


def block_pass(device: str, d_model: int = 768, heads: int = 12, length: int = 128) -> Callable[[], object]:
    """One forward and backward pass of a transformer block, to be called."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(d_model, heads, 4 * d_model, dropout=0.0, batch_first=True).to(device)
    x = torch.randn(2, length, d_model).to(device).requires_grad_()
    dout = torch.randn(2, length, d_model).to(device)

    def one_pass() -> object:
        block.zero_grad()
        block(x).backward(dout)
        return x.grad

    return one_pass


def measure(passes: dict[str, Callable[[], object]], rounds: int, warm_up: int = 3) -> dict[str, float]:
    """Median seconds of each pass."""
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    names = list(passes)
    for turn in range(warm_up + rounds):
        random.shuffle(names)
        for name in names:
            start = time.perf_counter()
            passes[name]()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def start_up(processes: int = 5) -> float:
    """Median seconds of ``import kernels.ascend`` after ``import torch``."""
    runs = [subprocess.run([sys.executable, "-c", START_UP], capture_output=True, check=True) for _ in range(processes)]
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if not kernels.ascend.is_emulated():
        sys.exit("this machine has a real torch_npu: there is no emulated device to measure")
    torch.set_num_threads(args.threads)
    print("| forward + backward | CPU | emulated NPU | NPU / CPU |")
    print("|---|---|---|---|")
    for name, (d_model, heads, length) in {"block 2x128x768": (768, 12, 128), "block 2x32x96": (96, 4, 32)}.items():
        passes = {device: block_pass(device, d_model, heads, length) for device in ("cpu", "npu")}
        cpu, npu = measure(passes, args.rounds).values()
        print(f"| {name} | {cpu * 1e3:.2f} ms | {npu * 1e3:.2f} ms | {npu / cpu:.2f}x |")
    print(f"\nstart-up: {start_up():.2f} s on top of import torch")


if __name__ == "__main__":
    main()
