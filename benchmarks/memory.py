"""How much memory does one forward and backward pass take beyond its inputs?

    python -m benchmarks.memory [--naive]

B = 1, 8 heads, D = 64, float32, tiles of 256. Each line is a fresh process: VmHWM (the most it ever held in memory)
after the pass, minus VmHWM before it. What the maths library sets up on first use is included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HEADS, DIM, BLOCK = 8, 64, 256


def high_water() -> float:
    """VmHWM of this process in MB."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def one_pass(kind: str, seq: int) -> None:
    """Runs in the fresh process; prints the growth in MB."""
    import torch

    from benchmarks.passes import PASSES

    torch.set_num_threads(2)
    torch.manual_seed(0)
    q, k, v, dout = (torch.randn(1, HEADS, seq, DIM) for _ in range(4))
    inputs = tuple(x.requires_grad_() for x in (q, k, v))
    before = high_water()
    PASSES[kind](*inputs, dout, BLOCK)
    print(high_water() - before)


def measure(kind: str, seq: int) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", "--one", kind, str(seq)]
    root = Path(__file__).resolve().parents[1]
    return float(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--naive", action="store_true", help="also the standard attention (6 GB at N = 8192)")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "N"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one_pass(args.one[0], int(args.one[1]))
        return
    kinds = ["tiled", "causal", "sdpa"] + ["naive"] * args.naive
    print("| forward + backward | N = 4096 | N = 8192 | ratio |")
    print("|---|---|---|---|")
    for kind in kinds:
        small, large = measure(kind, 4096), measure(kind, 8192)
        print(f"| {kind} | {small:.0f} MB | {large:.0f} MB | {large / small:.2f}x |")


if __name__ == "__main__":
    main()
