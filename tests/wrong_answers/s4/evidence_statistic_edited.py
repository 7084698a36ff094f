# flashdojo: exercise=s4-evidence check=s4-evidence.consistent misconception=evidence-edited
"""The table of kernels is as written; the statistic claims a shorter total."""

from pathlib import Path

file = next(Path("profiles/after").rglob("op_statistic.csv"))
lines = file.read_text("utf-8").splitlines()
cells = lines[1].split(",")
file.write_text("\n".join([lines[0], ",".join(["0", *cells[1:4], "300.000", "300.000", "300.000", "300.000", cells[8]])]) + "\n")
