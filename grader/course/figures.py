"""Pictures of the lessons: matplotlib with Chinese labels where a Chinese font is installed, English ones where not."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib import font_manager

from grader.text import say

__all__ = ["INK", "MASKED", "PALETTE", "VISIBLE", "clean", "label", "plt"]

CHINESE_FONTS = (
    *("WenQuanYi Micro Hei", "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "SimHei"),
)
CHINESE_FILES = ("wqy", "notosanscjk", "sourcehansans", "pingfang", "hiragino", "msyh", "simhei")
PALETTE = ("#4472a8", "#e08a3c", "#5a9e6f", "#b0546a", "#7a6bab", "#8c8c8c")
VISIBLE, MASKED, INK = "#4472a8", "#eceff3", "#333333"


def _chinese_fonts() -> list[str]:
    names = set(font_manager.get_font_names())
    if not names.intersection(CHINESE_FONTS):  # matplotlib's cache may be older than the font
        for path in font_manager.findSystemFonts():
            if Path(path).name.lower().startswith(CHINESE_FILES):
                font_manager.fontManager.addfont(path)
        names = set(font_manager.get_font_names())
    return [name for name in CHINESE_FONTS if name in names]


_chinese = _chinese_fonts()
plt.rcParams.update(
    {
        "font.family": ["DejaVu Sans", *_chinese],  # matplotlib looks glyph by glyph along this list
        "axes.unicode_minus": False,
        "axes.titlesize": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.dpi": 96,
    }
)


def label(zh: str, en: str) -> str:
    """The label in the notebook's language; English when no font here can draw Chinese."""
    text = str(say(zh, en))
    return text if _chinese or text == en else en


def clean(*axes: plt.Axes) -> None:
    """Take ticks and frame away: for drawings that are not graphs."""
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
        for spine in ax.spines.values():
            spine.set_visible(False)
