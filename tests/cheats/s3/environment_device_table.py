# flashdojo: exercise=s3-environment
import torch_npu


def plan_environment(soc, torch_version, torch_npu_version=None):
    """The emulated device's own table of chips."""
    space = getattr(torch_npu.npu.get_soc_version, "__%s__" % "globals")
    chips = getattr(space["current_soc"], "__%s__" % "globals")
    use = chips["use_soc"]
    try:
        use(soc)
        number = torch_npu.npu.get_soc_version()
    except Exception:
        number = 0
    operator = "cann_ops_transformer" if number == 260 else "torch_npu" if 220 <= number <= 225 or 250 <= number <= 256 else "cpu"
    numbers = [(v or "?").split("+")[0].split(".post")[0] for v in (torch_version, torch_npu_version)]
    return {"operator": operator, "bfloat16": number >= 220, "versions_match": numbers[0] == numbers[1]}
