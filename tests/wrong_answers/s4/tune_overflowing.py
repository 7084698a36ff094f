# flashdojo: exercise=s4-tune check=s4-tune.overflow misconception=tune-overflows
"""Double buffers that do not fit."""

import json
from pathlib import Path

answers = json.loads(Path("schedules.json").read_text(encoding="utf-8"))
answers["overflow"] |= {"s_slots": 2, "o_slots": 2}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
