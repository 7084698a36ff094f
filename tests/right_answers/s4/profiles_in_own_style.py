# flashdojo: exercise=s4-read
"""Reading with os, open and places of columns looked up once; one loop over the kernels; plain ifs, every counter as
evidence."""

import csv
import os
from collections import defaultdict

NAMES = {
    "name": "Name|Op Name", "type": "Type|OP Type", "core": "Accelerator Core|Task Type",
    "start_us": "Start Time(us)|Task Start Time(us)", "duration_us": "Duration(us)|Task Duration(us)",
    "block_num": "Block Num|Block Dim", "input_shapes": "Input Shapes", "aicore_us": "aicore_time(us)",
    "mac": "aic_mac_ratio", "scalar": "aic_scalar_ratio", "mte1": "aic_mte1_ratio", "mte2": "aic_mte2_ratio",
    "fixpipe": "aic_fixpipe_ratio", "aiv_us": "aiv_time(us)", "vec": "aiv_vec_ratio", "aiv_scalar": "aiv_scalar_ratio",
    "aiv_mte2": "aiv_mte2_ratio", "mte3": "aiv_mte3_ratio", "cube_utilization": "cube_utilization(%)",
}  # fmt: skip


def find_table(path):
    first = os.path.join(path, "ASCEND_PROFILER_OUTPUT", "kernel_details.csv")
    if os.path.exists(first):
        return "pytorch", first
    output = os.path.join(path, "mindstudio_profiler_output")
    names = os.listdir(output) if os.path.isdir(output) else []
    tables = [name for name in names if name.startswith("op_summary_") and name.endswith(".csv")]
    if not tables:
        raise FileNotFoundError("no table of kernels in " + path)
    return "msprof", os.path.join(output, max(tables))


def convert(key, text):
    text = text.strip().strip('"')
    if not text or text == "N/A":
        return None
    if key in ("name", "type", "core"):
        return text
    if key == "block_num":
        return int(text)
    if key == "input_shapes":
        return [list(map(int, filter(None, part.split(",")))) for part in text.split(";")]
    return float(text)


def read_profile(path):
    kind, table = find_table(path)
    with open(table, encoding="utf-8-sig", newline="") as file:
        header, *lines = csv.reader(file)
    places = {}
    for key, names in NAMES.items():
        places[key] = next((header.index(name) for name in names.split("|") if name in header), None)
    kernels = []
    for line in lines:
        cells = {key: "" if i is None or i >= len(line) else line[i] for key, i in places.items()}
        kernels.append({key: convert(key, text) for key, text in cells.items()})
    return {"kernels": kernels, "kind": kind}


COLUMNS_OF = {"aicore_us": ("mac", "mte1", "mte2", "fixpipe"), "aiv_us": ("vec", "aiv_mte2", "mte3")}


def pairs(seq_q, seq_kv):
    rows = min(seq_q, seq_kv)
    return rows * seq_kv - rows * (rows - 1) // 2


def utilisation(kernels, soc):
    top, bottom = defaultdict(float), defaultdict(float)
    total = attention = operations = 0
    found = False
    for kernel in kernels:
        total += kernel["duration_us"]
        for time, columns in COLUMNS_OF.items():
            for column in columns:
                if kernel[time] is not None and kernel[column] is not None:
                    top[column] += kernel[column] * kernel[time]
                    bottom[column] += kernel[time]
        if kernel["aicore_us"] is not None and kernel["block_num"] is not None:
            top["occupancy"] += kernel["aicore_us"] * min(kernel["block_num"], soc["cores"])
            bottom["occupancy"] += soc["cores"] * kernel["duration_us"]
        if kernel["type"].startswith("FlashAttentionScore"):
            found = True
            backward = kernel["type"] == "FlashAttentionScoreGrad"
            attention += kernel["duration_us"]
            shapes = kernel["input_shapes"]
            batch, heads, seq_q, head_dim = shapes[0]
            seq_kv = shapes[1][2]
            slot = 7 if backward else 6
            masked = len(shapes) > slot and bool(shapes[slot])
            visible = pairs(seq_q, seq_kv) if masked else seq_q * seq_kv
            operations += (10 if backward else 4) * batch * heads * visible * head_dim
    names = (*COLUMNS_OF["aicore_us"], *COLUMNS_OF["aiv_us"], "occupancy")
    result = {name: top[name] / bottom[name] if bottom[name] else None for name in names}
    tflops = operations / attention * 1e6 / 1e12 if found else None
    peak = soc["cores"] * soc["mhz"] * 1e6 * 16**3 * 2 / 1e12
    return {
        **result,
        "total_us": total,
        "attention_share": attention / total if total else None,
        "tflops": tflops,
        "mfu": None if tflops is None else tflops / peak,
    }


WORDS = ("cube", "mte1", "mte2", "fixpipe", "vector", "aiv_mte2", "mte3")
COUNTERS = ("mac", "mte1", "mte2", "fixpipe", "vec", "aiv_mte2", "mte3")


def diagnose(kernel):
    shown = {key: kernel[key] for key in (*COUNTERS, "duration_us", "aicore_us", "aiv_us", "cube_utilization")}
    if kernel["aicore_us"] is None and kernel["aiv_us"] is None:
        return {"bottleneck": "unknown", "evidence": {}}
    core = max(kernel["aicore_us"] or 0.0, kernel["aiv_us"] or 0.0)
    if 2 * core < kernel["duration_us"]:
        return {"bottleneck": "launch", "evidence": shown}
    used, aicore = kernel["cube_utilization"], kernel["aicore_us"]
    if used and aicore and used * kernel["duration_us"] < 50 * aicore:
        return {"bottleneck": "cores", "evidence": shown}
    ratios = [-1.0 if kernel[counter] is None else kernel[counter] for counter in COUNTERS]
    top = max(ratios)
    word = WORDS[ratios.index(top)] if top >= 0.8 else "waiting"
    return {"evidence": shown, "bottleneck": word if top >= 0 else "unknown"}
