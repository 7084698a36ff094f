"""Checks of s3-speed: a kernel whose call returns at once while the device works on for a time that the judge knows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from grader.checking.compare import returned
from grader.checking.hardware import of_kernel
from grader.subject import Missing, Provided
from grader.vocabulary import Context, check, say

if TYPE_CHECKING:
    from kernels.ascend.backend import Backend  # importing it brings the NPU into the process

SPEED = "measure_speed"
RATE = "s3-speed.rate"
LOW, HIGH = 0.45, 1.1  # of the true rate: waiting costs a little, nothing is faster than the device
AIM = 100  # calls a second, on hardware
SCALES = (1, 3, 6)  # another program may have had the processor: then again, with a slower device


def measured(
    ctx: Context, seconds: float, *, warmup: int, iters: int, low: str | None = None, high: str, **kernel: Any
) -> None:
    """The rate for a kernel of ``seconds``; ``low`` and ``high`` name the ideas behind one too small or too large."""
    kernel["seconds"], got = seconds, math.nan
    for scale in SCALES:
        options = {name: _scaled(value, scale) if name != "hiccups" else value for name, value in kernel.items()}
        value = ctx.subject.call(SPEED, Provided("queued_kernel", options), warmup=warmup, iters=iters).value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            ctx.fail(
                say("应返回一个数，得到 {got}。", "It must return a number, it returned {got}.", got=returned(value)),
                misconception="wrong-return",
                evidence={"got": returned(value)},
            )
        got, seconds = float(value), options["seconds"]
        if LOW <= got * seconds <= HIGH:
            return
    want = 1 / seconds
    ctx.fail(
        say(
            "设备每次要 {ms:.2f} 毫秒，应约为每秒 {want:.0f} 次，得到 {got:.5g}（warmup={warmup}，iters={iters}）。",
            "The device takes {ms:.2f} ms a call, so about {want:.0f} calls a second; reported were {got:.5g} "
            "(warmup={warmup}, iters={iters}).",
            ms=1e3 * seconds,
            want=want,
            got=got,
            warmup=warmup,
            iters=iters,
        ),
        misconception=(low or _unit(got, seconds)) if got < want else high,
        evidence={"got": got if math.isfinite(got) else str(got), "expected": want},
    )


def _unit(got: float, seconds: float) -> str | None:
    """The time, in one unit or another, in place of the rate."""
    return "speed-inverted" if any(LOW <= seconds * unit / got <= 1 / LOW for unit in (1, 1e3) if got > 0) else None


def _scaled(times: float | tuple[float, ...], scale: int) -> float | tuple[float, ...]:
    return tuple(time * scale for time in times) if isinstance(times, tuple) else times * scale


def draw_seconds(ctx: Context, case: str, low: float = 0.002, high: float = 0.004) -> float:
    return float(ctx.rng(case).uniform(low, high))


@check(RATE, points=3, concept="timing")
def speed_rate(ctx: Context) -> None:
    """Two kernels of different length, every call alike: synchronise, or only the launch is timed."""
    for case, low, high in (("a", 0.0015, 0.0022), ("b", 0.006, 0.009)):  # no constant is right for both
        seconds = draw_seconds(ctx, case, low, high)
        measured(ctx, seconds, warmup=2, iters=8, high="speed-not-synchronised")


@check("s3-speed.warm-up", points=2.5, concept="timing", needs=(RATE,))
def speed_warm_up(ctx: Context) -> None:
    """The first calls are slow, as when a device compiles its kernels; they are the warm-up, and over before timing."""
    seconds = draw_seconds(ctx, "a")
    slow = tuple(float(x) for x in ctx.rng("slow").uniform(0.02, 0.03, 4))
    measured(ctx, seconds, warmup=4, iters=7, low="speed-no-warm-up", high="speed-not-synchronised", first=slow)


@check("s3-speed.median", points=2.5, concept="timing", needs=(RATE,))
def speed_median(ctx: Context) -> None:
    """A few calls take much longer, or no time at all: the median does not mind, mean and best do."""
    for case, hiccup in (("slow", 0.025), ("fast", 0.0002)):
        seconds, warmup, iters = draw_seconds(ctx, case), 2, 13
        odd = _some(ctx, case, warmup, iters)
        measured(
            ctx, seconds, warmup=warmup, iters=iters,
            low="speed-mean", high="speed-best", hiccups=odd, hiccup=hiccup,
        )  # fmt: skip


def _some(ctx: Context, case: str, warmup: int, iters: int) -> tuple[int, ...]:
    """Four of the timed calls, by number."""
    chosen: Sequence[int] = ctx.rng(f"{case} places").choice(iters, 4, replace=False).tolist()
    return tuple(sorted(warmup + place for place in chosen))


@check("s3-speed.hardware", points=0, concept="hardware", needs=(RATE,))
def speed_hardware(ctx: Context) -> None:
    """The course's criterion on this machine's NPU: more than 100 calls a second at [2, 128, 768] with 12 heads. Of
    NpuFlashAttention, by the learner's own measure_speed, where both run on that NPU; else of its kernel alone."""
    backend = ctx.hardware()
    if getattr(ctx.subject, "on_real_npu", False):
        what, rate = say("你的 NpuFlashAttention", "your NpuFlashAttention"), _own_rate(ctx)
    else:
        what, rate = say("NPU 自己的算子，不含你的代码", "its kernel, without your code,"), _kernel_rate(ctx, backend)
    if rate <= AIM:
        ctx.fail(
            say(
                "在这台机器的 NPU 上每秒 {rate:.0f} 次，目标是 {aim} 次以上（测的是{what}）。",
                "On the NPU of this machine {what} makes {rate:.0f} calls a second; the aim is more than {aim}.",
                what=what,
                rate=rate,
                aim=AIM,
            ),
            evidence={"got": rate, "expected": AIM},
        )


def _own_rate(ctx: Context) -> float:
    try:
        module = ctx.subject.construct("NpuFlashAttention", 768, 12)
    except Missing:
        ctx.not_measured(
            say(
                "要测的是你的 NpuFlashAttention（s3-module），它还没有定义。",
                "your NpuFlashAttention (s3-module) is what is to be timed, and it is not defined yet.",
            )
        )
    forward = Provided("forward", {"handle": module, "x": torch.randn(2, 128, 768)})
    return float(ctx.subject.call(SPEED, forward, warmup=10, iters=20).value)


def _kernel_rate(ctx: Context, backend: Backend) -> float:
    q, k, v = (torch.randn(2, 12, 128, 64, dtype=torch.float16).to(backend.device) for _ in range(3))

    def seconds() -> float:
        torch.get_device_module(backend.device).synchronize()
        start = time.perf_counter()
        backend.forward(q, k, v, scale=0.125)
        torch.get_device_module(backend.device).synchronize()
        return time.perf_counter() - start

    return of_kernel(ctx, backend, lambda: 1 / median([seconds() for _ in range(30)][10:]))
