"""The NPU of this machine in both languages: what kernels.machine found, what is in the way, what to install."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from grader import paths
from grader.text import Text, say

SECONDS = 120  # importing torch and torch_npu on a slow disk
PROBE = "import json; from kernels.machine import detect; print('\\n' + json.dumps(detect().report()))"
BROKEN = (  # when that one did not come back; its last words are the argument
    "import json, sys; from kernels.machine import unimportable; "
    "print('\\n' + json.dumps(unimportable(sys.argv[1]).report()))"
)
# One row of the table in docs/*/npu.md. Source: COMPATIBILITY.md of Ascend/pytorch, its recommended combination.
RECOMMENDED = ("CANN 9.1.0", "torch 2.12.0", "torch_npu 2.12.0")
FAULTS_ZH = {  # the sentences of kernels.machine.FAULTS
    "torch-npu-missing": (
        "有 NPU（/dev/davinci*），但没有安装 torch_npu。"
        "请安装与 torch {torch} 和 CANN 配套的 torch_npu（版本表见 docs/zh/npu.md）"
    ),
    "not-a-pair": (
        "torch {torch} 与 torch_npu {torch_npu} 不配套：两者必须是同一个版本号。"
        "请安装 torch_npu {release}（或它的 .post 版本），或换成与 torch_npu {torch_npu} 配套的 torch"
    ),
    "cann-missing": (
        "装有 torch_npu {torch_npu}，但无法导入，也找不到 CANN。"
        "请安装 CANN 并 source 它的 set_env.sh；没有 NPU 的机器请 pip uninstall torch_npu，"
        "或设 FLASHDOJO_NPU=emulated 照样使用模拟设备（{detail}）"
    ),
    "cann-not-sourced": (
        "装有 torch_npu {torch_npu}，但无法导入：CANN 的环境变量没有设置。"
        "启动 Python 之前先 source {cann_home}/set_env.sh（或它上一级目录里的那个）；"
        "也可以设 FLASHDOJO_NPU=emulated 使用模拟设备（{detail}）"
    ),
    "torch-npu-broken": (
        "装有 torch_npu {torch_npu}，但在 CANN {cann} 下无法导入：{detail}。"
        "请安装与这个 CANN 配套的 torch_npu（版本表见 docs/zh/npu.md），或设 FLASHDOJO_NPU=emulated 使用模拟设备"
    ),
    "no-device": "torch_npu {torch_npu} 看不到 NPU：{detail}。请用 npu-smi info 检查驱动和 /dev/davinci* 的权限",
    "soc-unsupported": (
        "{soc} 没有 FlashAttention 算子：flash_attn 需要 Ascend950，"
        "npu_fusion_attention 需要 Ascend910B1 到 B4、Ascend910_93 或 Ascend950。"
        "请使用 CPU，或模拟别的芯片：FLASHDOJO_NPU=emulated FLASHDOJO_SOC=950"
    ),
    "ops-transformer-missing": (
        "{soc} 上的 flash_attn 需要 cann_ops_transformer，但没有安装。在 ops-transformer 仓库里执行 "
        "bash build.sh --torch_extension --soc=ascend950，再 pip install build_out/*.whl --force-reinstall --no-deps"
    ),
    "ops-transformer-broken": (
        "装有 cann_ops_transformer {cann_ops_transformer}，但无法导入：{detail}。"
        "请先 rm -rf ~/.cache/torch_extensions/*，再用现在的 torch 和 CANN 重新构建"
    ),
    "ops-transformer-too-old": (
        "cann_ops_transformer {cann_ops_transformer} 里没有 {detail}。请用最新的 ops-transformer 重新构建"
    ),
}


def look() -> Mapping[str, Any] | None:
    """The report of a kernels.machine.Situation; None without a torch that can be imported.

    An installed torch_npu is examined in a process of its own: half installed it takes ``import torch`` or the process
    down with it.
    """
    if "torch_npu" not in sys.modules and importlib.util.find_spec("torch_npu") is not None:
        return _look_from_outside()
    try:
        import torch  # noqa: F401
    except (ImportError, RuntimeError):
        return None
    from kernels.machine import detect

    return detect().report()


def problem_of(found: Mapping[str, Any]) -> Text | None:
    """The fault in both languages, with what to do; None when nothing is in the way."""
    if found["fault"] is None:
        return None
    chinese = FAULTS_ZH[found["fault"]].format(**found)
    return Text(f"{chinese}。", f"{found['problem']}.")


def what_to_install() -> dict[str, Text]:
    """By chips: what the course needs on a real one."""
    three = Text("、".join(RECOMMENDED), ", ".join(RECOMMENDED))
    return {
        "Ascend 910B, A3": say(
            "需要 {three}；算子 npu_fusion_attention 就在 torch_npu 里",
            "needs {three}; its operator, npu_fusion_attention, is part of torch_npu",
            three=three,
        ),
        "Ascend 950": say(
            "需要 {three}，加上从 ops-transformer 构建的 cann_ops_transformer（flash_attn）。步骤和其他版本：{page}",
            "needs {three}, and cann_ops_transformer (flash_attn) built from ops-transformer. "
            "How, and other versions: {page}",
            three=three,
            page=Text("docs/zh/npu.md", "docs/en/npu.md"),
        ),
    }


def _look_from_outside() -> Mapping[str, Any] | None:
    found, last_words = _ask(PROBE)
    return found if found is not None else _ask(BROKEN, last_words)[0]


def _ask(code: str, *arguments: str) -> tuple[Mapping[str, Any] | None, str]:
    """The JSON that the program's last line is, or None; and the last line that it said of an error."""
    where = os.pathsep.join([str(paths.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": where}
    command = [sys.executable, "-c", code, *arguments]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"no answer from import torch_npu within {SECONDS} s"
    try:
        return json.loads(run.stdout.splitlines()[-1]), ""
    except (IndexError, json.JSONDecodeError):
        return None, (run.stderr.strip() or f"import torch_npu ended the process ({run.returncode})").splitlines()[-1]
