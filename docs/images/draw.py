"""Draws the README's pictures from real output, in both languages. Needs chromium for the PNG ones.

.venv/bin/python docs/images/draw.py
"""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
from html import unescape
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console

from grader import paths
from grader.batch.run import grade_paths
from grader.text import LANGUAGES
from grader.views import html
from grader.views.terminal import show_batch
from grader.wall.limits import Limits

HERE = Path(__file__).parent
CLASS = paths.EXAMPLES / "submissions"
SHOWN = ("emil", "s2-forward")  # whose answer the notebook's picture shows, and which exercise of it
BROWSER = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def main() -> None:
    submissions = grade_paths([CLASS], stage="s2", limits=Limits(call=2.0))["submissions"]
    student, exercise = SHOWN
    one = next(item for item in submissions if item["student"] == student)
    one = {**one, "exercises": [item for item in one["exercises"] if item["id"] == exercise]}
    for lang in LANGUAGES:
        terminal = Console(record=True, width=88, file=io.StringIO())
        show_batch(terminal, submissions, lang=lang)
        svg = terminal.export_svg(title="./dojo demo", unique_id=f"demo-{lang}")
        (HERE / f"demo.{lang}.svg").write_text(tidy(svg), encoding="utf-8")
        screenshot(html.render(one, lang=lang), HERE / f"check.{lang}.png")


def tidy(svg: str) -> str:
    """No fonts from elsewhere, and Chinese text as wide as it is: rich counts its characters, not its columns."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)

    def widen(match: re.Match[str]) -> str:
        start, length, middle, text = match.groups()
        plain = unescape(text)
        return f"{start}{float(length) / len(plain) * cell_len(plain):g}{middle}{text}</text>"

    return re.sub(r'(<text [^>]*textLength=")([\d.]+)("[^>]*>)([^<]+)</text>', widen, svg)


def screenshot(fragment: str, target: Path) -> None:
    page = f'<!doctype html><meta charset="utf-8"><body style="margin:14px;background:#fff">{fragment}'
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "check.html")
        source.write_text(page, encoding="utf-8")
        command = [*BROWSER, "--window-size=860,520", f"--screenshot={target}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
