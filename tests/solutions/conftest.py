"""The worked solutions, run the way a notebook runs them: all exercises of a stage in one namespace, nothing else."""

from __future__ import annotations

import linecache
from types import SimpleNamespace

import pytest
import torch

from grader.paths import SOLUTIONS

torch.set_num_threads(1)  # several test processes share the machine

ORDER = {
    "s1_standard_attention": ["softmax", "attention", "module", "cost"],
    "s2_flash_attention": [
        "update", "merge", "tiles", "forward", "module", "backward", "function", "varlen", "traffic",
    ],
}  # fmt: skip


def load(stage: str) -> SimpleNamespace:
    namespace: dict[str, object] = {"__name__": stage}
    for exercise in ORDER[stage]:
        path = SOLUTIONS / stage / f"{exercise}.py"
        linecache.checkcache(str(path))
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    return SimpleNamespace(**namespace)


@pytest.fixture(scope="session")
def s1() -> SimpleNamespace:
    return load("s1_standard_attention")


@pytest.fixture(scope="session")
def s2() -> SimpleNamespace:
    return load("s2_flash_attention")
