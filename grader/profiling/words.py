"""The hardware's words in both languages: pipes, memories, what lies in them."""

from __future__ import annotations

from grader.text import Text, say
from kernels.perf import CAVEATS
from kernels.profiles.utilisation import MEANINGS

PIPES = {  # of the model, in the order in which data passes them
    "MTE2": say("MTE2：GM → L1", "MTE2: GM → L1"),
    "MTE1": say("MTE1：L1 → L0A/L0B", "MTE1: L1 → L0A/L0B"),
    "CUBE": say("Cube：矩阵乘", "Cube: matrix products"),
    "FIXPIPE": say("Fixpipe：L0C → UB 或 GM", "Fixpipe: L0C → UB or GM"),
    "VMTE2": say("Vector 核的 MTE2：GM → UB", "MTE2 of the vector core: GM → UB"),
    "VECTOR": say("Vector：softmax 与缩放", "Vector: softmax and rescaling"),
    "MTE3": say("MTE3：UB → L1 或 GM", "MTE3: UB → L1 or GM"),
}

SHORT_UNITS = {  # on a picture
    "cube": Text("Cube", "Cube"),
    "mte1": Text("MTE1", "MTE1"),
    "mte2": Text("MTE2", "MTE2"),
    "fixpipe": Text("Fixpipe", "Fixpipe"),
    "vector": Text("Vector", "Vector"),
    "vector_mte2": Text("MTE2 (AIV)", "MTE2 (AIV)"),
    "mte3": Text("MTE3", "MTE3"),
    "hbm": Text("HBM ≥", "HBM ≥"),
}
SHORT_PIPES = {
    "MTE2": "MTE2", "MTE1": "MTE1", "CUBE": "Cube", "FIXPIPE": "Fixpipe", "VMTE2": "MTE2 (AIV)", "VECTOR": "Vector",
    "MTE3": "MTE3",
}  # fmt: skip
UNITS = {  # of kernels.profiles.utilisation: shares of the whole chip, over the time of the kernels
    "cube": say("Cube：做乘加", "Cube: multiplying"),
    "mte1": say("MTE1：L1 → L0A/L0B", "MTE1: L1 → L0A/L0B"),
    "mte2": say("MTE2：GM → L1", "MTE2: GM → L1"),
    "fixpipe": say("Fixpipe：L0C → UB 或 GM", "Fixpipe: L0C → UB or GM"),
    "cube_scalar": say("Cube 核的标量单元", "scalar unit of the cube cores"),
    "vector": say("Vector：做计算", "Vector: computing"),
    "vector_mte2": say("Vector 核的 MTE2：GM → UB", "MTE2 of the vector cores: GM → UB"),
    "mte3": say("MTE3：UB → L1 或 GM", "MTE3: UB → L1 or GM"),
    "vector_scalar": say("Vector 核的标量单元", "scalar unit of the vector cores"),
    "cube_occupancy": say("Cube 核占用（不等于忙）", "cube cores occupied (not: busy)"),
    "hbm": say("HBM 带宽（至少）", "HBM bandwidth (at least)"),
}
MEANINGS_ZH = {
    "cube": "Cube 做乘加的时间，占全部 Cube 核时间的比例",
    "mte1": "L1 搬到 L0A/L0B 的时间，占全部 Cube 核时间的比例",
    "mte2": "全局内存搬到 L1 的时间，占全部 Cube 核时间的比例",
    "fixpipe": "L0C 搬出的时间，占全部 Cube 核时间的比例",
    "cube_scalar": "Cube 核的标量单元工作的时间，占全部 Cube 核时间的比例",
    "vector": "Vector 做计算的时间，占全部 Vector 核时间的比例",
    "vector_mte2": "全局内存搬到 UB 的时间，占全部 Vector 核时间的比例",
    "mte3": "UB 搬出的时间，占全部 Vector 核时间的比例",
    "vector_scalar": "Vector 核的标量单元工作的时间，占全部 Vector 核时间的比例",
    "cube_occupancy": "Cube 核上有算子的时间，占全部 Cube 核时间的比例，不管它在做什么",
    "hbm": "输入和输出各搬一次，占 HBM 在这段时间里搬运能力的比例；真实流量只多不少，除非张量就在 L2 里",
}


def meaning(name: str) -> Text:
    """Of what a share is a share, for a key of ``UNITS``."""
    return Text(MEANINGS_ZH[name], MEANINGS[name])


MEMORIES = {
    "L1": say("L1：Q、K、V、P 的块", "L1: tiles of Q, K, V, P"),
    "L0A": say("L0A：左操作数", "L0A: left operands"),
    "L0B": say("L0B：右操作数", "L0B: right operands"),
    "L0C": say("L0C：累加结果", "L0C: accumulators"),
    "UB": say("UB：每个 Vector 核的缓冲区", "UB: of each vector core"),
}

_CAVEATS_ZH = {
    "head-dim": "没有由设备计时、head_dim 不是 128 的实测",
    "block-q-small": "没有 block_q 小于 64 的实测",
    "block-q": "没有由设备计时、block_q 不是 128 的实测",
    "lanes": "block_q / 2 行填不满一个向量寄存器的 64 个通道，模型没有计入这一点",
    "l2-miss": "K、V 或工作区放不进 L2，这种情形没有实测",
    "short": "启动开销占到五分之一以上，而这样的实测几乎都在主机侧计时",
    "few-rows": "行块比核少，而这样的实测几乎都在主机侧计时",
}


def caveat(name: str) -> Text:
    """What limits a prediction, by its id in kernels.perf."""
    return Text(_CAVEATS_ZH.get(name, CAVEATS[name]), CAVEATS[name])


_STAGES_ZH = {
    "C1": "C1：QKᵀ",
    "V1": "V1：softmax",
    "C2": "C2：PV",
    "V2": "V2：缩放 O",
    "normalise": "归一化",
    "store O": "写出 O",
}


def stage_name(stage: str) -> Text:
    """A stage of the model's pipeline; "load K" and "S out" are moves."""
    english = {"C1": "C1: QKᵀ", "V1": "V1: softmax", "C2": "C2: PV", "V2": "V2: rescale O"}.get(stage, stage)
    chinese = _STAGES_ZH.get(stage, stage)
    if stage.startswith("load "):
        chinese = f"载入 {stage.removeprefix('load ')}"
    elif stage.endswith(" out"):
        chinese = f"搬出 {stage.removesuffix(' out')}"
    return Text(chinese, english)
