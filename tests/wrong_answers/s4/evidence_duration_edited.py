# flashdojo: exercise=s4-evidence check=s4-evidence.after misconception=evidence-not-the-schedule
"""The duration in the table of kernels was made shorter by hand."""

from pathlib import Path

file = next(Path("profiles/after").rglob("kernel_details.csv"))
header, row = file.read_text("utf-8").splitlines()
place = header.split(",").index("Duration(us)")
cells = row.split(",")
cells[place] = "250.000"
file.write_text("\n".join([header, ",".join(cells)]) + "\n")
