# flashdojo: exercise=s4-dataflow check=s4-dataflow.lead misconception=flow-serial
"""One task after the other."""


def backward_dataflow(tasks: int, template: str) -> dict:
    bn2 = template == "BN2"
    lead = 0
    late = ("C3", "C4", "C5") if bn2 else ("C5", "C3", "C4")
    cube, vector = [], []
    for turn in range(tasks + lead):
        if turn < tasks:
            cube += [("C2", turn), ("C1", turn)]
        if turn >= lead:
            cube += [(stage, turn - lead) for stage in late]
    for task in range(tasks):
        stages = ("V1", "V2", "V4", "V3", "V5", "V6") if bn2 else ("V1", "V2", "V4", "V3")
        vector += [(stage, task) for stage in stages]
    return {"cube": cube, "vector": vector}
