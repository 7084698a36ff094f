# flashdojo: exercise=s4-evidence check=s4-evidence.after misconception=evidence-not-the-schedule
"""The schedule changed after its profile was written."""

import json
from pathlib import Path

answers = json.loads(Path("schedules.json").read_text(encoding="utf-8"))
answers["block-size"] |= {"block_q": 112}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
