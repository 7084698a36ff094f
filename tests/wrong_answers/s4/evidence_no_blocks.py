# flashdojo: exercise=s4-evidence check=s4-evidence.after,s4-evidence.consistent misconception=evidence-not-the-schedule
"""The column of blocks has another name."""

from pathlib import Path

file = next(Path("profiles/after").rglob("kernel_details.csv"))
file.write_text(file.read_text("utf-8").replace(",Block Num,", ",Blocks,"), encoding="utf-8")
