# flashdojo: exercise=s4-read check=s4-read.columns misconception=read-by-position also=read-missing-column
"""The columns are taken from where they are in the table that torch_npu.profiler writes today."""

import csv
from pathlib import Path

PLACES = {
    "name": 5, "type": 6, "core": 8, "start_us": 9, "duration_us": 10, "block_num": 12, "input_shapes": 15,
    "aicore_us": 22, "mac": 25, "scalar": 27, "mte1": 29, "mte2": 31, "fixpipe": 33, "aiv_us": 35, "vec": 38,
    "aiv_scalar": 40, "aiv_mte2": 42, "mte3": 44, "cube_utilization": 46,
}  # fmt: skip


def cell(key, row, shift):
    place = PLACES[key] - shift
    text = row[place].strip().strip('"') if place < len(row) else ""
    if text in ("", "N/A"):
        return None
    if key in ("name", "type", "core"):
        return text
    if key == "input_shapes":
        return [[int(size) for size in shape.split(",") if size] for shape in text.split(";")]
    return int(text) if key == "block_num" else float(text)


def read_profile(path):
    kind, shift = "pytorch", 0
    table = Path(path) / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    if not table.is_file():
        found = sorted((Path(path) / "mindstudio_profiler_output").glob("op_summary_*.csv"))
        if not found:
            raise FileNotFoundError(path)
        kind, shift, table = "msprof", 1, found[-1]
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {"kind": kind, "kernels": [{key: cell(key, row, shift) for key in PLACES} for row in rows]}
