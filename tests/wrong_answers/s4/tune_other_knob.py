# flashdojo: exercise=s4-tune check=s4-tune.preload misconception=tune-other-knob
"""The kernel gets more places in L0C, which no scheduler can give it."""

import json
from pathlib import Path

answers = json.loads(Path("schedules.json").read_text(encoding="utf-8"))
answers["preload"] |= {"l0c_slots": 2}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
