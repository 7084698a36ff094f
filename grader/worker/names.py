"""Names that stand for what is forbidden: the worker disables what is called so, the reading of the source and the
guard of the live check refuse it. One home, and free of imports, since the worker may import nothing of the grader."""

from __future__ import annotations

import re
from collections.abc import Iterable

ATTENTION = re.compile(r"attention|multi_?head|transformer|scaled_dot|_sdp_|sdpa", re.IGNORECASE)
SOFTMAX = re.compile(r"soft_?max|softmin|logsumexp|logcumsumexp|cross_?entropy", re.IGNORECASE)
SOC = "soc:"  # among what an exercise asks of its worker: "soc:Ascend910B3", the NPU that it has
TO_ARRAY = ("numpy", "__array__", "__dlpack__")  # methods of a tensor that lead out of torch

REFUSALS = {  # what the worker raises, by the rule that is broken; the judge knows the rule by these words
    "library_attention": "library attention is not allowed in FlashDojo",
    "softmax": "this exercise asks you to write softmax yourself",
    "numpy": "this exercise stays in torch, without numpy",
}


def soc_in(asked: Iterable[str]) -> str | None:
    """The NPU that is asked for, if any."""
    return next((one.removeprefix(SOC) for one in asked if one.startswith(SOC)), None)
