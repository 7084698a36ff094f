# flashdojo: exercise=s4-read check=s4-read.values misconception=read-float
"""Every number is a float."""

import csv
from pathlib import Path

COLUMNS = {
    "name": ("Name", "Op Name"),
    "type": ("Type", "OP Type"),
    "core": ("Accelerator Core", "Task Type"),
    "start_us": ("Start Time(us)", "Task Start Time(us)"),
    "duration_us": ("Duration(us)", "Task Duration(us)"),
    "block_num": ("Block Num", "Block Dim"),
    "input_shapes": ("Input Shapes",),
    "aicore_us": ("aicore_time(us)",),
    "mac": ("aic_mac_ratio",),
    "scalar": ("aic_scalar_ratio",),
    "mte1": ("aic_mte1_ratio",),
    "mte2": ("aic_mte2_ratio",),
    "fixpipe": ("aic_fixpipe_ratio",),
    "aiv_us": ("aiv_time(us)",),
    "vec": ("aiv_vec_ratio",),
    "aiv_scalar": ("aiv_scalar_ratio",),
    "aiv_mte2": ("aiv_mte2_ratio",),
    "mte3": ("aiv_mte3_ratio",),
    "cube_utilization": ("cube_utilization(%)",),
}


def read_profile(path: str) -> dict:
    """Read a profile folder: an ``..._ascend_pt`` of torch_npu.profiler or a ``PROF_...`` of msprof.

    The table is ``ASCEND_PROFILER_OUTPUT/kernel_details.csv`` of the former and
    ``mindstudio_profiler_output/op_summary_<time stamp>.csv`` of the latter (if exported more than once: the newest).
    Raises FileNotFoundError when the folder has neither.
    Returns {"kind": "pytorch" or "msprof", "kernels": [one dict per row, in the order of the file]}; each dict has
    exactly the keys of COLUMNS. Found by name, not by place: columns may be missing, more, or in another order.
    name, type, core: str; block_num: int; input_shapes: one list of int per input, [] for an absent optional input;
    everything else float, as the file has it (us; ratios 0..1; cube_utilization in percent).
    None where the column is missing or the cell is empty or "N/A".
    """
    folder, kind = Path(path), "pytorch"
    table = folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    if not table.is_file():
        kind = "msprof"
        found = sorted((folder / "mindstudio_profiler_output").glob("op_summary_*.csv"))
        if not found:
            raise FileNotFoundError(f"{path}: neither kernel_details.csv nor op_summary_*.csv")
        table = found[-1]

    def value(row, key):
        text = next((row[name] for name in COLUMNS[key] if row.get(name) is not None), "").strip().strip('"')
        if text in ("", "N/A"):
            return None
        if key in ("name", "type", "core"):
            return text
        if key == "input_shapes":
            return [[int(size) for size in shape.split(",") if size.strip()] for shape in text.split(";")]
        return float(text)

    with table.open(encoding="utf-8-sig", newline="") as file:
        kernels = [{key: value(row, key) for key in COLUMNS} for row in csv.DictReader(file)]
    return {"kind": kind, "kernels": kernels}
