"""The 950's operators on a real NPU of another chip: the same code with copies to the CPU and back.

The real NPU is a double: a package torch_npu whose import makes the device alone, so that all above it is what runs on
hardware. Each test has a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grader.paths import ROOT
from kernels.machine import release

CARD = """
import sys, torch
ascend = sys.modules["kernels.ascend.device"], sys.modules["kernels.ascend.fusion"]
ascend[0].install()
ascend[0].soc.use_soc({chip!r})
ascend[1].register()
npu = torch.npu
globals().update(ascend[1].TORCH_NPU)
"""
CALLS = """
import json, math, sys, warnings, torch
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import kernels.ascend
    kernels.ascend.install()
import cann_ops_transformer, torch_npu
from cann_ops_transformer.ops import flash_attn, flash_attn_grad, flash_attn_metadata
from kernels import oracle
from kernels.ascend.ops import platform
from kernels.machine import detect

torch.manual_seed(0)
q, k, v = (torch.randn(2, 40, n, 64, dtype=torch.float16) for n in (4, 2, 2))
q, k, v = (x.npu().requires_grad_() for x in (q, k, v))
same = dict(mask_mode=3, win_left=-1, win_right=-1, max_seqlen_q=40, max_seqlen_kv=40,
            layout_q="BSND", layout_kv="BSND", layout_out="BSND")
metadata = flash_attn_metadata(4, 2, 64, batch_size=2, is_grad_enabled=True, **same)
mask = torch.ones(2048, 2048, dtype=torch.int8, device="npu").triu(1)
same.update(metadata=metadata, attn_mask=mask, softmax_scale=0.125)
before = [x.detach().cpu() for x in (q, k, v, metadata, mask)]
out, lse = flash_attn(q, k, v, return_softmax_lse=True, **same)
dout = torch.ones_like(out)
through_autograd = torch.autograd.grad(out, (q, k, v), dout)
alone = flash_attn_grad(*(x.detach() for x in (q, k, v)), dout, out.detach(), lse, **same)
def double(x): return x.detach().cpu().double().transpose(1, 2)
want, want_lse = oracle.forward(*map(double, (q, k, v)), scale=0.125, mask_mode=3)
try:
    flash_attn(q.float(), k, v, **same)
    refusal = ""
except RuntimeError as error:
    refusal = str(error)
print(json.dumps({
    "said": [str(w.message) for w in said], "kind": detect().kind,
    "copies": platform._current is platform.LENT, "emulated": kernels.ascend.is_emulated(),
    "marked": [cann_ops_transformer.__emulated__, getattr(torch_npu, "__emulated__", False)],
    "devices": [str(x.device) for x in (out, lse, metadata, *alone)],
    "error": float((double(out) - want).abs().max()), "lse": float((lse.cpu() - want_lse).abs().max()),
    "gradients": [torch.equal(a, b) for a, b in zip(through_autograd, alone)],
    "unchanged": [torch.equal(x.detach().cpu(), y) for x, y in zip((q, k, v, metadata, mask), before)],
    "refusal": refusal, "chip": torch_npu.npu.get_device_name(),
}))
"""
GRADED = """
import json, sys
sys.path.insert(0, sys.argv[1])
from conftest import grade, solutions
some = "s3-forward", "s3-function", "s3-varlen", "s3-fusion"
print(json.dumps(grade("s3", solutions("s3"), exercises=some).status))
"""


@pytest.fixture
def on_a_card(tmp_path):
    def run(code: str, chip: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        version = release(torch.__version__)
        (tmp_path / "torch_npu").mkdir()
        (tmp_path / "torch_npu" / "__init__.py").write_text(f"__version__ = {version!r}\n" + CARD.format(chip=chip))
        (tmp_path / f"torch_npu-{version}.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: torch_npu\nVersion: {version}\n"
        (tmp_path / f"torch_npu-{version}.dist-info" / "METADATA").write_text(metadata)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLASHDOJO_")}
        kept |= {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT))), "OMP_NUM_THREADS": "1"}
        return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=kept)

    return run


@pytest.mark.parametrize(
    ("chip", "kind"), [("Ascend910B3", "910B"), ("Ascend910_9382", "910B"), ("Ascend910A", "none")]
)
def test_another_chip_is_lent_them(on_a_card, chip, kind):
    run = on_a_card(CALLS, chip)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    (said,) = told["said"]
    assert said.startswith(f"{chip} (emulated) has no flash_attn")  # the double's name says what it is
    assert "the operators of cann_ops_transformer are emulated here" in said
    assert ("torch_npu.npu_fusion_attention" in said) is (kind == "910B")
    assert (told["kind"], told["emulated"], told["marked"]) == (kind, False, [True, False])
    assert told["copies"]
    assert set(told["devices"]) == {"npu:0"}
    assert told["error"] < 2e-3
    assert told["lse"] < 1e-4
    assert all(told["gradients"])
    assert all(told["unchanged"])
    assert "float32" in told["refusal"]
    assert told["chip"].startswith(chip)


def test_a_950_without_its_package_is_lent_nothing(on_a_card):
    run = on_a_card("import kernels.ascend, cann_ops_transformer", "950")
    assert "No module named 'cann_ops_transformer'" in run.stderr
    assert "has no flash_attn" not in run.stderr


def test_stage_3_is_passed_on_a_910b(on_a_card):
    """And compared with that chip's own operator."""
    run = on_a_card(GRADED, "Ascend910B3", str(Path(ROOT, "tests", "stages")))
    assert run.returncode == 0, run.stderr
    status = json.loads(run.stdout)
    assert set(status.values()) == {"passed"}, status
    assert "s3-forward.hardware" in status
