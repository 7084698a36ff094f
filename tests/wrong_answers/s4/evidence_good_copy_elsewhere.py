# flashdojo: exercise=s4-evidence check=s4-evidence.consistent misconception=evidence-edited
"""The trace that every tool reads is empty; a good copy lies one folder up."""

from pathlib import Path

file = next(Path("profiles/after").rglob("trace_view.json"))
(file.parent.parent / file.name).write_bytes(file.read_bytes())
file.write_text("[]")
