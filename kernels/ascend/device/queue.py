"""The device's queue in time. A real card works asynchronously: a call returns at once and the device is busy after it.

Emulated operators compute in the call. Only what is launched here takes time on the device; whoever asks for a result
waits for it: ``torch.npu.synchronize()``, events, ``.item()``, copies to the CPU. While nothing is queued that costs
nothing.
"""

from __future__ import annotations

from time import perf_counter, sleep

_free_at = 0.0  # on the clock of time.perf_counter


def launch(seconds: float) -> None:
    """Keep the device busy for so long after all that is queued before; returns at once."""
    global _free_at
    _free_at = free_at() + seconds


def free_at() -> float:
    """When all that is queued now will be done, on the clock of time.perf_counter; now, when nothing is."""
    return max(_free_at, perf_counter())


def reached(moment: float) -> bool:
    """Whether the device has come to a moment of its queue."""
    return perf_counter() >= moment


def wait() -> None:
    """Return when the device has done all that is queued."""
    if _free_at:
        wait_until(_free_at)


def wait_until(moment: float) -> None:
    """Return when the device has come to a moment of its queue."""
    left = moment - perf_counter()
    if left > 0:
        sleep(left)
