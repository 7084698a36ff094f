import re

# zh: 芯片名 → torch_npu.npu.get_soc_version() 返回的编号；Ascend950 开头的都是 260。
# zh: 注意 Ascend910B 是第一代，Ascend910B1～B4 才是 A2。
# en: Names -> the id that torch_npu.npu.get_soc_version() gives; everything that begins with Ascend950 is 260.
# en: Mind that Ascend910B is of the first generation; Ascend910B1 to B4 are the A2.
SOC_VERSIONS = {
    **{f"Ascend910{name}": 100 + i for i, name in enumerate(("PremiumA", "ProA", "A", "ProB", "B"))},
    **{f"Ascend310P{name}": 200 + i for i, name in enumerate((1, 2, 3, 4, 5, 7))},
    **{f"Ascend910{name}": 220 + i for i, name in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))},
    **{f"Ascend310{name}": 240 + i for i, name in enumerate(("B1", "B2", "B3", "B4"))},
    **{f"Ascend910_{name}": 250 + i for i, name in enumerate((9391, 9392, 9381, 9382, 9372, 9362, 9363))},
}


def plan_environment(soc: str | None, torch_version: str, torch_npu_version: str | None = None) -> dict:
    """Which attention operator this environment can use, and whether its versions go together.

    soc: the name that torch_npu.npu.get_device_name() gives, such as "Ascend950PR_9589"; None without an NPU.
    Returns {"operator", "bfloat16", "versions_match"}:
    operator: "cann_ops_transformer" on the 950 family (id 260), "torch_npu" on 910B (220 to 225) and 910_93 (250 to
        256), "cpu" on every other chip, for an unknown name and for None;
    bfloat16: whether the NPU computes in bfloat16: ids from 220 on. False for an unknown name and for None;
    versions_match: whether torch and torch_npu are one release: the same numbers ("2.13.0"), whatever follows them
        ("+cpu", ".post2"). False when torch_npu is None. Independent of soc.
    """
    # zh: 第 1 步：由芯片名得到编号（950 看前缀，其余查表；查不到就没有编号）。
    # en: Step 1: the id of the chip (950 by its prefix, others by the table; none for a name that is not there).
    # zh: 第 2 步：由编号得到 operator 与 bfloat16。
    # en: Step 2: operator and bfloat16 from the id.
    # zh: 第 3 步：取出两个版本号开头的数字部分，整体比较。
    # en: Step 3: take the numbers at the beginning of both versions and compare them as a whole.
    ### BEGIN SOLUTION
    name = soc or ""
    id = 260 if name.startswith("Ascend950") else SOC_VERSIONS.get(name, 0)
    if id >= 260:
        operator = "cann_ops_transformer"
    elif 220 <= id <= 225 or 250 <= id <= 256:
        operator = "torch_npu"
    else:
        operator = "cpu"

    def release(version):
        return re.match(r"\d+(\.\d+)*", version)[0]

    versions_match = torch_npu_version is not None and release(torch_version) == release(torch_npu_version)
    return {"operator": operator, "bfloat16": id >= 220, "versions_match": versions_match}
    ### END SOLUTION
