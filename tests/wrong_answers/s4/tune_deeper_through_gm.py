# flashdojo: exercise=s4-tune check=s4-tune.on-chip misconception=tune-p-through-gm
"""P still takes the long way, with more running ahead."""

import json
from pathlib import Path

answers = json.loads(Path("schedules.json").read_text(encoding="utf-8"))
answers["on-chip"] |= {"p_path": "gm", "preload": 3, "p_slots": 4}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
