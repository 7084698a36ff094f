# flashdojo: exercise=s4-dataflow check=s4-dataflow.runs misconception=flow-read-first
"""V3 before V1."""


def backward_dataflow(tasks: int, template: str) -> dict:
    bn2 = template == "BN2"
    lead = 1 if bn2 else 2
    late = ("C3", "C4", "C5") if bn2 else ("C5", "C3", "C4")
    cube, vector = [], []
    for turn in range(tasks + lead):
        if turn < tasks:
            cube += [("C2", turn), ("C1", turn)]
        if turn >= lead:
            cube += [(stage, turn - lead) for stage in late]
    for task in range(tasks):
        stages = ("V2", "V4", "V3", "V1", "V5", "V6") if bn2 else ("V2", "V4", "V3", "V1")
        vector += [(stage, task) for stage in stages]
    return {"cube": cube, "vector": vector}
