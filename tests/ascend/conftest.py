"""The operators' cases are those of the course's kernels and more: their table is in reach. One thread per process."""

import sys
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))


@pytest.fixture(autouse=True)
def _float32_numerics(monkeypatch):
    """Whatever the caller's environment asks for."""
    monkeypatch.delenv("FLASHDOJO_NUMERICS", raising=False)


@pytest.fixture
def chip_910b():
    """The emulated device is a 910B for one test."""
    from kernels.ascend.device import soc

    before = soc.current_soc().name
    soc.use_soc("Ascend910B3")
    yield
    soc.use_soc(before)
