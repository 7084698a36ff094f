# flashdojo: exercise=s4-tune check=s4-tune.block-size misconception=tune-block-q-unchanged
"""The tile grows to the wrong side."""

import json
from pathlib import Path

answers = json.loads(Path("schedules.json").read_text(encoding="utf-8"))
answers["block-size"] |= {"block_q": 64, "block_kv": 256, "preload": 3}
Path("schedules.json").write_text(json.dumps(answers), encoding="utf-8")
