# flashdojo: exercise=s4-utilisation check=s4-utilisation.shares misconception=share-by-duration
"""Weighted by duration."""

def utilisation(kernels: list, soc: dict) -> dict:
    def share(column, time):
        rows = [k for k in kernels if k[column] is not None and k[time] is not None]
        total = sum(k["duration_us"] for k in rows)
        return sum(k[column] * k["duration_us"] for k in rows) / total if total else None

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

    attention = [k for k in kernels if k["type"] in ("FlashAttentionScore", "FlashAttentionScoreGrad")]
    time = sum(k["duration_us"] for k in attention)
    result["attention_share"] = time / result["total_us"] if kernels else None
    result["tflops"] = sum(flops(k) for k in attention) / time / 1e6 if attention else None
    result["mfu"] = result["tflops"] / (soc["cores"] * soc["mhz"] * 8192 / 1e6) if attention else None
    return result
