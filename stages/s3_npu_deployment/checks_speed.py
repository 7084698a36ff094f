"""Checks of s3-speed: a kernel whose call returns at once while the device works on for a time that the judge knows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import TYPE_CHECKING

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
WAITED = 0.9  # of the device's time for these calls: what the judge's own clock must show at least
AIM = 100  # calls a second, on hardware
SCALES = (1, 3, 6)  # another program may have had the processor: then again, with a slower device
UNITS = (1e3, 60, 1e-3)  # a rate in another unit; another factor that comes up is iters


@dataclass(frozen=True)
class Kernel:
    """How long the device works on each call, from the first warm-up call on; the usual time is ``seconds``."""

    seconds: float
    warmup: int
    iters: int
    first: tuple[float, ...] = ()
    hiccups: tuple[int, ...] = ()
    hiccup: float = 0.0

    def times(self) -> list[float]:
        usual = [self.hiccup if call in self.hiccups else self.seconds for call in range(self.warmup + self.iters)]
        return [*self.first, *usual[len(self.first) :]]

    def slower(self, scale: int) -> Kernel:
        first = tuple(time * scale for time in self.first)
        return replace(self, seconds=self.seconds * scale, hiccup=self.hiccup * scale, first=first)

    def provided(self) -> Provided:
        options = {"seconds": self.seconds, "first": self.first, "hiccups": self.hiccups, "hiccup": self.hiccup}
        return Provided("queued_kernel", options)


def reported(ctx: Context, kernel: Kernel, *, with_warmup: bool = False) -> tuple[float, Kernel]:
    """The rate that learner code gives, and of which kernel: a slower one, if the first attempts were off."""
    got, asked = math.nan, kernel
    for scale in SCALES:
        asked = kernel.slower(scale)
        start = time.perf_counter()
        value = ctx.subject.call(SPEED, asked.provided(), warmup=asked.warmup, iters=asked.iters).value
        elapsed = time.perf_counter() - start
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            ctx.fail(
                say("应返回一个数，得到 {got}。", "It must return a number, it returned {got}.", got=returned(value)),
                misconception="wrong-return",
                evidence={"got": returned(value)},
            )
        got = float(value)
        if is_right(got, asked):
            require_waiting(ctx, asked, elapsed, 0 if with_warmup else asked.warmup)
            break
    return got, asked


def require_waiting(ctx: Context, kernel: Kernel, elapsed: float, first: int) -> None:
    """A rate that is right is no proof; that the device had the time to make all calls from ``first`` on is."""
    needed = sum(kernel.times()[first:])
    if elapsed < WAITED * needed:
        ctx.fail(
            say(
                "设备做完 {calls} 次调用要 {needed:.0f} 毫秒，函数 {elapsed:.0f} 毫秒就返回了（iters={iters}）。",
                "The device needs {needed:.0f} ms for {calls} calls; the function returned after {elapsed:.0f} ms "
                "(iters={iters}).",
                calls=len(kernel.times()) - first,
                iters=kernel.iters,
                needed=1e3 * needed,
                elapsed=1e3 * elapsed,
            ),
            misconception="speed-calls-missing",
            evidence={"got": elapsed, "expected": needed},
        )


def is_right(got: float, kernel: Kernel) -> bool:
    return LOW <= got * kernel.seconds <= HIGH


def fail_rate(ctx: Context, got: float, kernel: Kernel, misconception: str | None) -> None:
    ctx.fail(
        say(
            "设备每次要 {ms:.2f} 毫秒，应约为每秒 {want:.0f} 次，得到 {got:.5g}（warmup={warmup}，iters={iters}）。",
            "The device takes {ms:.2f} ms a call, so about {want:.0f} calls a second; reported were {got:.5g} "
            "(warmup={warmup}, iters={iters}).",
            ms=1e3 * kernel.seconds,
            want=1 / kernel.seconds,
            got=got,
            warmup=kernel.warmup,
            iters=kernel.iters,
        ),
        misconception=misconception,
        evidence={"got": got if math.isfinite(got) else str(got), "expected": 1 / kernel.seconds},
    )


def measured(ctx: Context, kernel: Kernel, low: str, *, with_warmup: bool = False) -> None:
    """``low`` names the idea behind a rate that is too small, unless another statistic of the timed calls is what was
    reported."""
    got, asked = reported(ctx, kernel, with_warmup=with_warmup)
    if not is_right(got, asked):
        fail_rate(
            ctx, got, asked, _statistic(got, asked) or (low if got * asked.seconds < 1 else "speed-not-synchronised")
        )


def _statistic(got: float, kernel: Kernel) -> str | None:
    """What of the timed calls was taken in place of the median."""
    timed = kernel.times()[kernel.warmup :]
    if not kernel.hiccups or not (got > 0 and math.isfinite(got)):
        return None
    rates = (
        (1 / mean(timed), "speed-mean"),
        (mean(1 / time for time in timed), "speed-mean"),
        (1 / min(timed), "speed-best"),
        (1 / max(timed), "speed-worst"),
    )
    far, name = min((abs(math.log(got / rate)), name) for rate, name in rates)
    return name if far < math.log(2) else None


def _factor(rates: Sequence[tuple[float, Kernel]]) -> str | None:
    """The idea behind rates that are wrong in the same way for kernels of different length."""
    if not all(got > 0 and math.isfinite(got) for got, _ in rates):
        return None
    if all(any(LOW <= kernel.seconds * unit / got <= 1 / LOW for unit in (1, 1e3)) for got, kernel in rates):
        return "speed-inverted"  # the time in place of the rate
    times = [got * kernel.seconds for got, kernel in rates]
    steady = max(times) < 1.5 * min(times)
    found = any(all(LOW <= factor / unit <= HIGH for factor in times) for unit in (*UNITS, rates[0][1].iters))
    return "speed-unit" if steady and found else None


def draw_seconds(ctx: Context, case: str, low: float = 0.002, high: float = 0.004) -> float:
    return float(ctx.rng(case).uniform(low, high))


@check(RATE, points=3, concept="timing")
def speed_rate(ctx: Context) -> None:
    """Two kernels of different length, every call alike: synchronise, or only the launch is timed."""
    spans = (("a", 0.0015, 0.0022), ("b", 0.006, 0.009))  # no constant is right for both
    rates = [reported(ctx, Kernel(draw_seconds(ctx, *span), warmup=2, iters=8)) for span in spans]
    for got, kernel in rates:
        if not is_right(got, kernel):
            idea = _factor(rates) or ("speed-not-synchronised" if got * kernel.seconds > 1 else None)
            fail_rate(ctx, got, kernel, idea)


@check("s3-speed.warm-up", points=2.5, concept="timing", needs=(RATE,))
def speed_warm_up(ctx: Context) -> None:
    """The first calls are slow, as when a device compiles its kernels; they are the warm-up, and over before timing:
    before the one call that is timed, too."""
    for case, iters, low, high in (("several", 7, 0.002, 0.004), ("one", 1, 0.006, 0.009)):
        slow = tuple(float(x) for x in ctx.rng(f"slow {case}").uniform(0.02, 0.03, 4))
        kernel = Kernel(draw_seconds(ctx, case, low, high), warmup=4, iters=iters, first=slow)
        measured(ctx, kernel, "speed-no-warm-up", with_warmup=True)


@check("s3-speed.median", points=2.5, concept="timing", needs=(RATE,))
def speed_median(ctx: Context) -> None:
    """A few calls take much longer, or no time at all: the median does not mind, mean and best do."""
    for case, hiccup in (("slow", 0.025), ("fast", 0.0002)):
        warmup, iters = 2, 13
        odd = _some(ctx, case, warmup, iters)
        kernel = Kernel(draw_seconds(ctx, case), warmup, iters, hiccups=odd, hiccup=hiccup)
        measured(ctx, kernel, "speed-mean")


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
