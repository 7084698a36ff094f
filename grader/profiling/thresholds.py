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
    "厂商 msprof-analyze 26.2 的 FlashAttention 规则", "the vendor's, msprof-analyze 26.2, for FlashAttention"
)
_OURS = say("本课程", "this course")
_OF_CUBE = say("占 Cube 核工作时间的比例（1 = 一直忙）", "share of the cube core's time (1 = always busy)")
_OF_VECTOR = say("占 Vector 核工作时间的比例（1 = 一直忙）", "share of the vector core's time (1 = always busy)")
_OF_SPAN = say("占首个算子开始到末个结束的时间", "share of the time from first start to last end")

CUBE = Threshold(
    0.8,
    _OF_CUBE,
    "aic_mac_ratio",
    say("厂商用于矩阵乘算子，这里也用于 FlashAttention", "the vendor's for matrix products"),
)
VECTOR = Threshold(0.75, _OF_VECTOR, "aiv_vec_ratio", _VENDOR)
MTE2 = Threshold(0.8, _OF_CUBE, "aic_mte2_ratio", _VENDOR)
FIXPIPE = Threshold(
    0.75,
    _OF_CUBE,
    "aic_fixpipe_ratio",
    say("厂商只用于反向，这里前向也用", "the vendor's for the backward; here for both"),
)
ALIGNED = Threshold(128, say("元素", "elements"), "Input Shapes", _VENDOR)
SHORT = Threshold(
    20, say("微秒", "microseconds"), "Duration(us)", say("厂商不判断更短的算子", "the vendor judges none shorter")
)
IDLE = Threshold(0.1, _OF_SPAN, "Start Time(us), Duration(us)", _OURS)
_WORKING = say("核的工作时间占时长的比例", "share of the duration that cores work")
_ON_CORES = say("%，Cube 核上有算子的时间", "per cent of the time, a kernel is on the cube cores")
LAUNCH = Threshold(0.5, _WORKING, "aicore_time(us), aiv_time(us)", _OURS)
OCCUPIED = Threshold(80, _ON_CORES, "cube_utilization(%)", _OURS)
ENOUGH = Threshold(0.6, _OF_CUBE, "aic_mac_ratio", _OURS)  # less, on cores that are occupied, is worth a word
ALL = (CUBE, VECTOR, MTE2, FIXPIPE, ALIGNED, SHORT, LAUNCH, IDLE, OCCUPIED, ENOUGH)
