# flashdojo: exercise=s4-utilisation check=s4-utilisation.attention misconception=attention-by-part
"""Whatever has Attention in its name counts."""

def utilisation(kernels: list, soc: dict) -> dict:
    """How well the kernels of a profile use the chip.

    kernels: as read_profile gives them. soc: {"cores": AI cores (cube cores) of the chip, "mhz": their clock}.
    Returns a dict; every share is a number from 0 to 1, and None where no kernel has the columns it needs:
    total_us: the sum of all durations;
    mac, mte1, mte2, fixpipe: the share of the AI Core time that the pipe was busy: sum(ratio * aicore_us) over
        sum(aicore_us), of the kernels that have both;
    vec, aiv_mte2, mte3: the same with aiv_us;
    occupancy: cores at work: sum(aicore_us * min(block_num, cores)) over cores * sum(duration_us), of the kernels that
        have aicore_us and block_num;
    attention_share: durations of FlashAttentionScore and FlashAttentionScoreGrad over total_us;
    tflops: 1e12 operations per second of these kernels: their operations over their durations. A forward does
        4 * B * N1 * D * visible, a Grad 2.5 times that; input_shapes[0] is q [B, N1, S1, D], input_shapes[1] is k
        [B, N2, S2, D]; visible = S1 * S2, or with a mask the pairs with j <= i + S2 - S1. The mask is the 7th input
        (input_shapes[6]) of the forward and the 8th (input_shapes[7]) of a Grad, there if not empty;
    mfu: tflops over the peak of the chip, cores * mhz * 8192 operations per microsecond.
    """

    def share(column, time):
        rows = [k for k in kernels if k[column] is not None and k[time] is not None]
        total = sum(k[time] for k in rows)
        return sum(k[column] * k[time] for k in rows) / total if total else None

    result = {"total_us": sum(k["duration_us"] for k in kernels)}
    result |= {pipe: share(pipe, "aicore_us") for pipe in ("mac", "mte1", "mte2", "fixpipe")}
    result |= {pipe: share(pipe, "aiv_us") for pipe in ("vec", "aiv_mte2", "mte3")}

    rows = [k for k in kernels if k["aicore_us"] is not None and k["block_num"] is not None]
    time = soc["cores"] * sum(k["duration_us"] for k in rows)
    busy = sum(k["aicore_us"] * min(k["block_num"], soc["cores"]) for k in rows)
    result["occupancy"] = busy / time if time else None

    def flops(k):
        (b, n, s1, d), s2 = k["input_shapes"][0], k["input_shapes"][1][2]
        grad = k["type"].endswith("Grad")
        visible = s1 * s2
        if any(k["input_shapes"][6 + grad : 7 + grad]):
            visible = sum(min(s2, max(0, i + s2 - s1 + 1)) for i in range(s1))
        return 4 * b * n * d * visible * (2.5 if grad else 1)

    attention = [k for k in kernels if "Attention" in k["type"]]
    time = sum(k["duration_us"] for k in attention)
    result["attention_share"] = time / result["total_us"] if kernels else None
    result["tflops"] = sum(flops(k) for k in attention) / time / 1e6 if attention else None
    result["mfu"] = result["tflops"] / (soc["cores"] * soc["mhz"] * 8192 / 1e6) if attention else None
    return result
