# flashdojo: exercise=s3-environment check=s3-environment.bfloat16 misconception=bfloat16-support
"""bfloat16 is taken to go with the operators."""
import re

IDS = {
    "Ascend910PremiumA": 100, "Ascend910ProA": 101, "Ascend910A": 102, "Ascend910ProB": 103, "Ascend910B": 104,
    "Ascend310P1": 200, "Ascend310P2": 201, "Ascend310P3": 202, "Ascend310P4": 203, "Ascend310P5": 204, "Ascend310P7": 205,
    "Ascend910B1": 220, "Ascend910B2": 221, "Ascend910B2C": 222, "Ascend910B3": 223, "Ascend910B4": 224, "Ascend910B4-1": 225,
    "Ascend310B1": 240, "Ascend310B2": 241, "Ascend310B3": 242, "Ascend310B4": 243,
    "Ascend910_9391": 250, "Ascend910_9392": 251, "Ascend910_9381": 252, "Ascend910_9382": 253,
    "Ascend910_9372": 254, "Ascend910_9362": 255, "Ascend910_9363": 256,
}


def numbers(version):
    return re.match(r"[\d.]*\d", version).group()


def plan_environment(soc, torch_version, torch_npu_version=None):
    soc = soc or ""
    number = 260 if soc.startswith("Ascend950") else IDS.get(soc)
    operator = "cpu"
    if number == 260:
        operator = "cann_ops_transformer"
    elif number and (220 <= number < 230 or 250 <= number < 260):
        operator = "torch_npu"
    bfloat16 = operator != "cpu"
    match = torch_npu_version is not None and numbers(torch_version) == numbers(torch_npu_version)
    return {"operator": operator, "bfloat16": bfloat16, "versions_match": match}
