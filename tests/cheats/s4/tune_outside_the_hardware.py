# flashdojo: exercise=s4-tune
"""Schedules that the chip could not run, fields of the kernel's code, and times that were simply claimed."""

import json
from pathlib import Path

answers = {
    "block-size": {"block_q": 1024},
    "overflow": {"block_q": 128, "s_slots": 2, "o_slots": 2, "p_slots": 16},
    "on-chip": {"p_path": "chip", "vector_code": "fused", "l0c_slots": 8},
    "preload": {"preload": 2, "microseconds": 100, "gain": 0.5},
}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
