"""Draws the pictures of the documents from real output, in both languages. Needs chromium for the PNG ones.

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
from grader.profiling.model_of import about
from grader.profiling.page import page
from grader.reports import class_page, learner
from grader.text import LANGUAGES
from grader.views import html
from grader.views.terminal import show_batch
from grader.wall.limits import Limits
from kernels.perf import SCHEDULES, Shape, find_soc, predict
from kernels.profiles import kernel_run, read, write_pytorch

HERE = Path(__file__).parent
CLASS = paths.EXAMPLES / "submissions"
SHOWN = ("emil", "s2-forward")  # whose answer the notebook's picture shows, and which exercise of it
REPORTED = "emil"  # whose page the picture of a report shows
MARGIN = '<!doctype html><meta charset="utf-8"><body style="margin:14px;background:#fff">'
BROWSER = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def main() -> None:
    document = grade_paths([CLASS], stage="s2", limits=Limits(call=2.0))
    submissions = document["submissions"]
    student, exercise = SHOWN
    one = next(item for item in submissions if item["student"] == student)
    reported = next(item for item in submissions if item["student"] == REPORTED)
    one = {**one, "exercises": [item for item in one["exercises"] if item["id"] == exercise]}
    for lang in LANGUAGES:
        terminal = Console(record=True, width=88, file=io.StringIO())
        show_batch(terminal, submissions, lang=lang)
        svg = terminal.export_svg(title="./dojo demo", unique_id=f"demo-{lang}")
        (HERE / f"demo.{lang}.svg").write_text(tidy(svg), encoding="utf-8")
        screenshot(MARGIN + html.render(one, lang=lang), HERE / f"check.{lang}.png", (860, 520))
        report = learner.page(document, reported, lang=lang)
        screenshot(report, HERE / f"report.{lang}.png", (1080, 1240))
        screenshot(class_page.page(document, lang=lang), HERE / f"class.{lang}.png", (1280, 1560))
        screenshot(profile_page(lang), HERE / f"profile.{lang}.png", (1080, 1560))


def profile_page(lang: str) -> str:
    """Two steps of one ladder compared, as ``profile report --before`` shows them."""
    soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096)
    found = {name: predict(soc, shape, SCHEDULES[name]) for name in ("v4", "v8")}
    with tempfile.TemporaryDirectory() as folder:
        profiles = {
            name: read(write_pytorch(Path(folder, name), [kernel_run(one, shape, soc)], about=about(one, name)))
            for name, one in found.items()
        }
    return page(profiles["v8"], profiles["v4"], lang=lang)


def tidy(svg: str) -> str:
    """No fonts from elsewhere, and Chinese text as wide as it is: rich counts its characters, not its columns."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)

    def widen(match: re.Match[str]) -> str:
        start, length, middle, text = match.groups()
        plain = unescape(text)
        return f"{start}{float(length) / len(plain) * cell_len(plain):g}{middle}{text}</text>"

    return re.sub(r'(<text [^>]*textLength=")([\d.]+)("[^>]*>)([^<]+)</text>', widen, svg)


def screenshot(html_page: str, target: Path, size: tuple[int, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        source.write_text(html_page, encoding="utf-8")
        width, height = size
        command = [*BROWSER, f"--window-size={width},{height}", f"--screenshot={target}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
