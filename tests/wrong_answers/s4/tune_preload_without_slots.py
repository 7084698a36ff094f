# flashdojo: exercise=s4-tune check=s4-tune.preload misconception=tune-deadlock
"""C1 may run ahead, but has no place for its scores."""

import json
from pathlib import Path

answers = json.loads(Path("schedules.json").read_text(encoding="utf-8"))
answers["preload"] |= {"preload": 2, "s_slots": 1, "p_slots": 1}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
