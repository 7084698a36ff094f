# flashdojo: exercise=s3-environment check=s3-environment.versions misconception=versions-none
"""No torch_npu is a TypeError."""

import re

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

    versions_match = release(torch_version) == release(torch_npu_version)
    return {"operator": operator, "bfloat16": id >= 220, "versions_match": versions_match}
