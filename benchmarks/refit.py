"""Fits the model's constants again, on the fit rows of the calibration table alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from kernels.perf import ARCHITECTURES, Architecture, calibrate

HOST_WEIGHT = 0.05  # of a row timed from the host, against one timed by the device
PRIOR = 0.001  # weight of the squared logarithm by which a constant leaves its guess
GUESS: Mapping[str, Mapping[str, float]] = {  # from vendors' tables, before any fit
    "3510": {
        "gm_latency": 300, "flag": 100, "l0c_to_gm": 41, "launch_us": 12,
        "softmax.unfused": 11.6, "softmax.fused": 8.3, "softmax.lanes": 8.3,
    },
    "2201": {
        "gm_latency": 300, "flag": 100, "l0c_to_gm": 41, "launch_us": 12,
        "softmax.cann": 12, "softmax.pto": 12, "lone_core_boost": 1.2,
    },
}  # fmt: skip


def refit(arch: str) -> tuple[Architecture, dict[str, float]]:
    """Coordinate descent on the squared logarithmic error, from the guess, with steps of 20 % down to 1 %."""
    shipped = ARCHITECTURES[arch]
    values = {name: _value(shipped, name) for name in shipped.fitted}
    found, step = dict(GUESS[arch]), 0.2
    best = _loss(arch, _with(shipped, values, found), found)
    while step > 0.01:
        moved = False
        for name in found:
            for factor in (1 + step, 1 / (1 + step)):
                other = {**found, name: found[name] * factor}
                loss = _loss(arch, _with(shipped, values, other), other)
                if loss < best - 1e-7:
                    found, best, moved = other, loss, True
                    break
        if not moved:
            step /= 2
    return _with(shipped, values, found), found


def _value(architecture: Architecture, name: str) -> float:
    code = name.removeprefix("softmax.")
    return architecture.softmax[code] if code != name else getattr(architecture, name)


def _with(shipped: Architecture, values: Mapping[str, float], wanted: Mapping[str, float]) -> Architecture:
    return shipped.scaled({name: value / values[name] for name, value in wanted.items()})


def _loss(arch: str, architecture: Architecture, found: Mapping[str, float]) -> float:
    rows = calibrate({arch: architecture}, arch=arch, part="fit")
    weights = [1.0 if row.device else HOST_WEIGHT for row in rows]
    error = sum(w * log(1 + row.error) ** 2 for w, row in zip(weights, rows)) / sum(weights)
    return error + PRIOR * sum(log(x / GUESS[arch][name]) ** 2 for name, x in found.items()) / len(found)
