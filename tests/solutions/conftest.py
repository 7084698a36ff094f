"""The worked solutions, run the way a notebook runs them: all exercises of a stage in one namespace, nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from grader.course import catalog

torch.set_num_threads(1)  # several test processes share the machine


def run_stage(stage: str) -> SimpleNamespace:
    namespace: dict[str, object] = {"__name__": stage}
    for exercise in catalog.load().stage(stage).exercises:
        source = exercise.solution.read_text(encoding="utf-8")
        exec(compile(source, str(exercise.solution), "exec"), namespace)
    return SimpleNamespace(**namespace)


@pytest.fixture(scope="session")
def s1() -> SimpleNamespace:
    return run_stage("s1")


@pytest.fixture(scope="session")
def s2() -> SimpleNamespace:
    return run_stage("s2")
