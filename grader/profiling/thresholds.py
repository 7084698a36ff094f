"""The numbers that advice compares with: each with its unit, of what it is a share, and whose number it is."""

from __future__ import annotations

from dataclasses import dataclass

from grader.text import Text, say


@dataclass(frozen=True)
class Threshold:
    """``value`` in ``unit``; ``column``: what of a profile is compared with it."""

    value: float
    unit: Text
    column: str
    whose: Text


_VENDOR = say(
    "厂商 msprof-analyze 26.2 的 FlashAttention 规则", "the FlashAttention rule of the vendor's msprof-analyze 26.2"
)
_OURS = say("本课程", "this course")
_OF_CUBE = say("占 Cube 核工作时间的比例（1 = 一直忙）", "share of the cube core's time (1 = always busy)")
_OF_VECTOR = say("占 Vector 核工作时间的比例（1 = 一直忙）", "share of the vector core's time (1 = always busy)")

MTE2 = Threshold(0.8, _OF_CUBE, "aic_mte2_ratio", _VENDOR)
VECTOR = Threshold(0.75, _OF_VECTOR, "aiv_vec_ratio", _VENDOR)
FIXPIPE = Threshold(
    0.75, _OF_CUBE, "aic_fixpipe_ratio",
    say("厂商只在反向用它，本课程前向也用", "the vendor's for the backward only; this course's for the forward too"),
)  # fmt: skip
CUBE = Threshold(
    0.8, _OF_CUBE, "aic_mac_ratio",
    say("厂商对矩阵乘算子的规则，这里也用于 FlashAttention", "the vendor's for matrix products, used here for FlashAttention too"),
)  # fmt: skip
ALIGNED = Threshold(128, say("元素", "elements"), "Input Shapes", _VENDOR)
SHORT = Threshold(
    20,
    say("微秒", "microseconds"),
    "Duration(us)",
    say("厂商：更短的算子不判断", "the vendor's: shorter kernels are not judged"),
)
IDLE = Threshold(
    0.1, say("占从第一个算子开始到最后一个结束的时间", "share of the time from the first kernel's start to the last one's end"),
    "Start Time(us), Duration(us)", _OURS,
)  # fmt: skip
ALL = (CUBE, VECTOR, MTE2, FIXPIPE, ALIGNED, SHORT, IDLE)
