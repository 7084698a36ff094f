"""How fast is a forward and backward pass of the tiled kernel on this CPU?

    python -m benchmarks.speed [--seq 4096] [--block 256] [--rounds 9] [--threads 2]

B = 1, 8 heads, D = 64, float32. The passes take turns, so that a machine that gets slower does so for all of them; the
table shows medians. `naive` is softmax(Q K^T) V with autograd, `sdpa` is torch's own fused kernel.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from benchmarks.passes import PASSES


def measure(seq: int, block: int, rounds: int) -> dict[str, float]:
    """Median seconds of each pass."""
    torch.manual_seed(0)
    q, k, v, dout = (torch.randn(1, 8, seq, 64) for _ in range(4))
    inputs = tuple(x.requires_grad_() for x in (q, k, v))
    seconds: dict[str, list[float]] = {name: [] for name in PASSES}
    for turn in range(rounds + 1):
        for name, one_pass in PASSES.items():
            start = time.perf_counter()
            one_pass(*inputs, dout, block)
            if turn:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--block", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    seconds = measure(args.seq, args.block, args.rounds)
    print("| forward + backward | median | speed of tiled against it |")
    print("|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value * 1e3:.0f} ms | {value / seconds['tiled']:.2f}x |")
    print(f"\ncausal takes 1/{seconds['tiled'] / seconds['causal']:.2f} of the time of full attention")


if __name__ == "__main__":
    main()
