"""Where the parts of the repository lie. The course runs from a clone, so everything is found from this file."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGES = ROOT / "stages"
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
EXAMPLES = ROOT / "examples"
WORKER = ROOT / "grader" / "worker"
