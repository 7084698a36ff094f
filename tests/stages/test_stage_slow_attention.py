"""The start of s4-fast that learners see is the one their answer is timed against."""

from grader import paths
from grader.course.lesson import read_cells

STAGE = paths.STAGES / "s4_profiling_tuning"


def test_the_given_cell_is_the_baseline():
    given = read_cells(STAGE / "cells_insides.py")["s4-fast", "given"]
    assert f"import math\n\nimport torch\n\n\n{given}" == (STAGE / "slow_attention.py").read_text("utf-8")
