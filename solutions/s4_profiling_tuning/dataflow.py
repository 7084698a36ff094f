def backward_dataflow(tasks: int, template: str) -> dict:
    """In which order the Cube and the Vector of one core issue the stages of the backward pass.

    tasks: how many tiles (pairs of a block of queries and a block of keys) the core works through, numbered from 0.
    template: "BN2GS1S2" or "BN2".
    Returns {"cube": [(stage, task), ...], "vector": [(stage, task), ...]}, every stage of every task once, each list in
    the order of issue. Both units work through their list one by one; a stage waits until what it reads has been
    written and until the slot that it writes is free.
    Cube    C2 S = Q K^T, C1 dP = dO V^T; C5 dV += P^T dO, C3 dQ += dS K, C4 dK += dS^T Q
    Vector  V1 sfmg = rowsum(dO * O); V2 P = exp(scale * S - lse), in the slot of S; V4 P to 16 bits, into L1; V3 dS =
            P * (dP - sfmg) to 16 bits, into L1; with BN2 also V5 scales and casts the dQ of C3, V6 the dK of C4
    Slots   two of S and two of dP (task t uses slot t % 2), one each of sfmg, of P in L1, of dS in L1. With BN2 C3
            leaves dQ in the slot of dP of its task, C4 leaves dK in the slot of S.
    The Cube leads: with BN2GS1S2 C2 and C1 of task t + 2 are issued before C5, C3 and C4 of task t; with BN2 it is C2
    and C1 of task t + 1.
    """
    # zh: 先列出每个阶段读谁、写到哪里，再安排次序：Cube 先发出 t + lead 的两个乘积，再回来收 t 的三个。
    # en: List first what each stage reads and where it writes; then the order: the Cube issues the two products of task
    # en: t + lead and comes back for the three of task t.
    ### BEGIN SOLUTION
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
        # zh: V3 覆写 dP 之前要用到 P 与 sfmg；V2 就地得到 P，V4 与 V3 都读它。
        # en: V3 needs P and sfmg; V2 makes P in place, and V4 and V3 both read it.
        stages = ("V1", "V2", "V4", "V3", "V5", "V6") if bn2 else ("V1", "V2", "V4", "V3")
        vector += [(stage, task) for stage in stages]
    return {"cube": cube, "vector": vector}
    ### END SOLUTION
