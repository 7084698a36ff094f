"""``flashdojo run``: a program on the NPU as if Python had been called on it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from grader.paths import ROOT

HALF_INSTALLED = 'raise ImportError("libhccl.so: cannot open shared object file")\n'
JOINT_EXAMPLE = """
import math
import sys
import neighbour
import torch
import torch_npu
import cann_ops_transformer

torch_npu.npu.set_device(0)
N1, N2, D, S = 8, 2, 128, 128
scale = 1.0 / math.sqrt(D)
q = torch.randn(2, S, N1, D, dtype=torch.float16, device="npu")
k, v = (torch.randn(2, S, N2, D, dtype=torch.float16, device="npu") for _ in range(2))
same = dict(mask_mode=0, win_left=-1, win_right=-1, max_seqlen_q=S, max_seqlen_kv=S,
            layout_q="BSND", layout_kv="BSND", layout_out="BSND")
metadata = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=2, is_grad_enabled=True, **same)
same |= dict(metadata=metadata, softmax_scale=scale)
attn_out, softmax_lse = cann_ops_transformer.flash_attn(q, k, v, return_softmax_lse=True, **same)
dq, dk, dv = cann_ops_transformer.flash_attn_grad(q, k, v, torch.randn_like(attn_out), attn_out, softmax_lse, **same)
torch_npu.npu.synchronize()
assert (dq.shape, dk.shape, dv.shape) == (q.shape, k.shape, v.shape)
print(attn_out.device, tuple(softmax_lse.shape), neighbour.NAME)
print(sys.argv[1:], __name__, sys.modules["__main__"].__file__ == sys.argv[0])
sys.exit(7)
"""


def flashdojo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLASHDOJO_")}
    path = os.pathsep.join(filter(None, (environment.pop("PATH_FIRST", ""), str(ROOT))))
    command = [sys.executable, "-W", "error::UserWarning", "-m", "grader.cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=kept | {"PYTHONPATH": path, "FLASHDOJO_LANG": "en"} | environment
    )


@pytest.fixture
def program(tmp_path):
    def write(source: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        return str(path)

    return write


def test_a_program_with_the_three_calls_of_the_950(program, tmp_path):
    tmp_path.joinpath("neighbour.py").write_text("NAME = 'beside it'\n")
    run = flashdojo("run", program(JOINT_EXAMPLE), "a", "--steps", "3", "--help")
    assert run.stderr == ""
    assert run.returncode == 7
    assert run.stdout == "npu:0 (2, 8, 128) beside it\n['a', '--steps', '3', '--help'] __main__ True\n"


def test_a_traceback_begins_in_the_program(program):
    path = program("import torch\ntorch.ones(2, device='npu') + torch.ones(2)\n")
    run = flashdojo("run", path)
    assert run.returncode == 1
    first, second, *_ = run.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert second == f'  File "{path}", line 2, in <module>'
    assert "argument other of operator aten::add.Tensor" in run.stderr.splitlines()[-1]


def test_an_unknown_soc_is_one_clear_line(program):
    run = flashdojo("run", program("import torch"), FLASHDOJO_SOC="H100")
    assert run.returncode == 2
    assert run.stderr.startswith("flashdojo: the NPU cannot be made ready: 'H100' is no SoC that can be emulated.")
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing.py", "no such program: missing.py"), ("book.ipynb", "run takes a .py program"), (".", "no such")],
)
def test_what_is_no_program(name, message):
    run = flashdojo("run", name)
    assert run.returncode == 2
    assert message in run.stderr


def test_a_half_installed_torch_npu_is_explained(program, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    Path(site, "torch_npu.py").write_text(HALF_INSTALLED)
    run = flashdojo("--lang", "zh", "run", program("import torch"), PATH_FIRST=str(site))
    assert run.returncode == 2
    for words in ("NPU 无法就绪：装有 torch_npu", "无法导入", "libhccl.so", "pip uninstall torch_npu"):
        assert words in run.stderr


def test_flashdojo_npu_runs_it_on_the_emulated_device_although_torch_npu_is_installed(program, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    Path(site, "torch_npu.py").write_text(HALF_INSTALLED)
    path = program("import torch, torch_npu\nprint(torch_npu.__emulated__, torch.ones(1, device='npu').device)")
    run = flashdojo("run", path, PATH_FIRST=str(site), FLASHDOJO_NPU="emulated")
    assert (run.stdout, run.stderr) == ("True npu:0\n", "")


def test_what_a_program_starts_is_told_of_the_emulated_device_and_of_no_other(program, tmp_path):
    path = program("import os\nprint(os.environ.get('FLASHDOJO_NPU'), 'TORCH_DEVICE_BACKEND_AUTOLOAD' in os.environ)")
    assert flashdojo("run", path).stdout == "emulated False\n"
    site = tmp_path / "site"
    site.mkdir()
    Path(site, "torch_npu.py").write_text("__version__ = '2.13.0'\n")
    assert flashdojo("run", path, PATH_FIRST=str(site)).stdout == "None False\n"
