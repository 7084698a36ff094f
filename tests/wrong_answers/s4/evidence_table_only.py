# flashdojo: exercise=s4-evidence check=s4-evidence.consistent misconception=evidence-incomplete
"""Only the table of kernels was kept."""

from pathlib import Path

for file in Path("profiles/after").rglob("*"):
    if file.name in ("op_statistic.csv", "trace_view.json", "step_trace_time.csv"):
        file.unlink()
