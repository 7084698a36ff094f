"""Tuning by hand, as data: from where, to where, by which idea, and what it gains.

``gain`` 0.5 means that the start takes 1.5 times as long as the end. It is the model's; ``measured`` is upstream's
where a pair of kernels that differ in just this was measured. ``at_least`` is the smallest gain over all ways of moving
each fitted constant of the two kernels by 20 % up or down: an idea whose gain did not survive that would be a property
of the constants and not of the chip. The exercises are the graded ones and ask for ``SHARE`` of the gain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernels.perf.architecture import Architecture
from kernels.perf.kernel import predict
from kernels.perf.named import SCHEDULES
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc, find_soc
from kernels.perf.unfused import three_kernels

SHARE = 0.8  # of the gain that an exercise asks for


@dataclass(frozen=True)
class TuningCase:
    """``idea`` names the fields of the schedule that the idea is about; ``refused`` is what did not fit, if that is
    how the case begins, and ``start`` then the first way out of it. ``start`` None: three kernels, not fused."""

    name: str
    soc: Soc
    shape: Shape
    start: Schedule | None
    end: Schedule
    idea: tuple[str, ...]
    gain: float
    at_least: float
    refused: Schedule | None = None
    measured: float | None = None
    graded: bool = False

    def start_us(self, architecture: Architecture | None = None) -> float:
        if self.start is None:
            return sum(three_kernels(self.soc, self.shape, architecture))
        return predict(self.soc, self.shape, self.start, architecture=architecture).microseconds

    def end_us(self, architecture: Architecture | None = None) -> float:
        return predict(self.soc, self.shape, self.end, architecture=architecture).microseconds

    def predicted_gain(self, architecture: Architecture | None = None) -> float:
        """Of the shipped constants, or of others."""
        return self.start_us(architecture) / self.end_us(architecture) - 1


_PR, _A2 = find_soc("950PR"), find_soc("910B3")
_USUAL, _DEEP = Shape(1, 16, 16, 4096, 4096, 128), Shape(1, 16, 16, 4096, 4096, 256)
_LITE = Shape(1, 1, 1, 131072, 131072, 128, "bfloat16")
_CAUSAL, _LONG = Shape(2, 4, 4, 4096, 4096, 128, mask_mode=3), Shape(1, 8, 8, 16384, 16384, 128)
_BEST = Schedule()
_GM = Schedule(s_path="gm", p_path="gm", o_path="gm", l0c_slots=2, vector_code="cann")
_V = SCHEDULES
_CHAIN = [  # each with one thing more than the one before
    replace(_GM, block_kv=512, preload=0, l0c_slots=1, ub_input_slots=1),
    replace(_GM, block_kv=512, preload=1, l0c_slots=1, ub_input_slots=1),
    replace(_GM, block_kv=512, preload=1, l0c_slots=2, ub_input_slots=1),
    replace(_GM, block_kv=512, preload=1, l0c_slots=2, ub_input_slots=2),
    replace(_GM, block_kv=512, preload=2),
    replace(_GM, block_kv=512, preload=2, s_bytes=2, o_bytes=2),
]
_CAUSAL_START = replace(_GM, preload=1, ub_input_slots=1)

CASES = (
    # ---- the four exercises
    TuningCase(
        "block-size", _PR, _USUAL, replace(_BEST, block_q=64), _BEST, ("block_q",), 0.49, 0.31, graded=True
    ),
    TuningCase(
        "overflow", _PR, _DEEP, replace(_BEST, block_q=64), replace(_BEST, s_slots=1, o_slots=1, preload=1),
        ("block_q", "s_slots", "o_slots", "preload", "shared_so"), 0.38, 0.37, refused=_BEST, graded=True,
    ),
    TuningCase("on-chip", _PR, _USUAL, replace(_BEST, p_path="gm"), _BEST, ("p_path",), 0.46, 0.27, graded=True),
    TuningCase(
        "preload", _PR, _USUAL, replace(_BEST, preload=1, s_slots=1, p_slots=1), _BEST,
        ("preload", "s_slots", "p_slots"), 0.29, 0.18, graded=True,
    ),
    # ---- 950: what flash_attn_lite does step by step, and single knobs
    TuningCase("wire-s", _PR, _LITE, _V["v0"], _V["v1"], ("s_path", "o_path"), 0.98, 0.82, measured=0.93),
    TuningCase("wire-p", _PR, _LITE, _V["v1"], _V["v2"], ("p_path",), 0.21, 0.18, measured=0.23),
    TuningCase(
        "l0-double", _PR, _LITE, _V["v3"], _V["v4"], ("l0_slots", "l0c_slots", "barrier"), 0.48, 0.31, measured=0.48
    ),
    TuningCase(
        "vector-fusion", _PR, _LITE, _V["v8-unfused"], _V["v8"], ("vector_code",), 0.40, 0.04, measured=0.39
    ),
    TuningCase("wire-p-v8", _PR, _USUAL, replace(_V["v8"], p_path="gm"), _V["v8"], ("p_path",), 0.40, 0.17),
    TuningCase(
        "preload-0", _PR, _USUAL, replace(_BEST, preload=0), replace(_BEST, preload=1), ("preload",), 0.96, 0.95
    ),
    TuningCase("l0-single", _PR, _USUAL, replace(_BEST, l0_slots=1), _BEST, ("l0_slots",), 0.53, 0.35),
    TuningCase("l0c-single", _PR, _USUAL, replace(_BEST, l0c_slots=1), _BEST, ("l0c_slots",), 0.48, 0.30),
    TuningCase(
        "overflow-96", _PR, _DEEP, replace(_BEST, block_q=64), replace(_BEST, block_q=96), ("block_q",), 0.33, 0.32,
        refused=_BEST,
    ),
    # ---- Atlas A2
    TuningCase(
        "a2-block-size", _A2, _CAUSAL, _CAUSAL_START, replace(_CAUSAL_START, block_kv=512), ("block_kv",), 0.34, 0.30
    ),
    TuningCase(
        "a2-block-size-64", _A2, _CAUSAL, replace(_CAUSAL_START, block_q=64), replace(_CAUSAL_START, block_kv=512),
        ("block_q", "block_kv"), 0.75, 0.64,
    ),
    TuningCase(
        "l2-overflow", _A2, _LONG, replace(_GM, block_kv=4096), replace(_GM, block_kv=512), ("block_kv",), 0.33, 0.22
    ),
    TuningCase("a2-preload", _A2, _USUAL, _CHAIN[0], _CHAIN[1], ("preload",), 0.98, 0.88),
    TuningCase("a2-l0c", _A2, _USUAL, _CHAIN[1], _CHAIN[2], ("l0c_slots",), 0.09, 0.07),
    TuningCase("a2-ub-input", _A2, _USUAL, _CHAIN[2], _CHAIN[3], ("ub_input_slots",), 0.15, 0.12),
    TuningCase("a2-preload-2", _A2, _USUAL, _CHAIN[3], _CHAIN[4], ("preload",), 0.25, 0.08),
    TuningCase("a2-half-exchange", _A2, _USUAL, _CHAIN[4], _CHAIN[5], ("s_bytes", "o_bytes"), 0.15, 0.00),
    TuningCase(
        "waves", _A2, Shape(1, 1, 1, 4096, 4096, 128), replace(_GM, block_kv=512),
        replace(_GM, block_kv=512, split="even"), ("split",), 0.19, 0.18,
    ),
    TuningCase("operator-fusion", _A2, _USUAL, None, SCHEDULES["cann"], (), 1.78, 1.38),
)  # fmt: skip
BY_NAME = {case.name: case for case in CASES}
