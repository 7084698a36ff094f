"""torch's own samples of every operator (OpInfo, float32, forward and backward): the device gives the CPU's bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.paths import ROOT

SWEEP = Path(__file__).with_name("opinfo_sweep.py")
EXCEPTIONS = {
    "sparse.sampled_addmm": "A sparse tensor is not supported",
    "sparse.mm.reduce": "A sparse tensor is not supported",
    "to_sparse": "layout torch.sparse_coo is not supported",
    "tensor_split": "to be on cpu",  # where it splits comes from the CPU on every device; the sweep moves it
}


def swept(dtype: str) -> dict[str, Any]:
    pytest.importorskip("expecttest", reason="torch's samples need the package expecttest")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SWEEP), dtype]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, f"a crash in {run.stderr.strip().splitlines()[-1]}"
    return json.loads(run.stdout)


def test_no_operator_differs_but_for_a_reason():
    sweep = swept("float32")
    assert sweep["operators"] > 600
    assert sweep["different"].keys() == EXCEPTIONS.keys()
    for name, why in sweep["different"].items():
        assert EXCEPTIONS[name] in why
    assert len(sweep["different"]) <= 0.02 * sweep["operators"]
    assert all("Jiterator is only supported on CUDA" in why for why in sweep["beyond"].values())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["complex64", "int64", "bool"])
def test_other_dtypes_differ_nowhere_else(dtype):
    assert swept(dtype)["different"].keys() <= EXCEPTIONS.keys()
