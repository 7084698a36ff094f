"""The page of what is alike, as a browser shows it: in both languages, on a phone, to a screen reader."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.disguises import USUAL
from benchmarks.similarity import PUBLISHED, sources
from grader.batch import intake
from grader.integrity.page import page
from grader.integrity.survey import contract, survey

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")]
axe = pytest.importorskip("axe_playwright_python.sync_playwright")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    texts = sources("s1")
    papers = {"ann": texts["in_place"], "bob": texts["in_place"], "cat": texts[PUBLISHED], "dan": "x = (\n"}
    for name, text in papers.items():
        copy = USUAL(text, contract().keys(), random.Random(1)) if name in ("bob", "cat") else text
        (folder / f"{name}.py").write_text(copy, encoding="utf-8")
    (folder / "eve.py").write_bytes(b"\xff\xfe")
    html = folder / "similarity.html"
    html.write_text(page(survey(intake.collect([folder])), lang="zh"), encoding="utf-8")
    return html


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.mark.parametrize(
    ("lang", "width", "scheme"),
    [("zh", 390, "light"), ("zh", 1200, "dark"), ("en", 390, "dark"), ("en", 1200, "light")],
)
def test_everybody_can_read_it(chromium: Any, file: Path, lang: str, width: int, scheme: str) -> None:
    tab = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(file.as_uri())
    tab.check(f"input[name=lang][value={lang}]", force=True)
    tab.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert tab.locator("details.alike").count() == 2  # ann and bob; cat and the published solutions
    assert tab.locator(".row.marked").count() > 60
    shown = tab.locator("main").inner_text()
    assert ("线索" in shown, "hint" in shown) == (lang == "zh", lang == "en")
    assert "eve" in shown
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab).response["violations"]
    assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []
    assert [url for url in requests if not url.startswith("file:")] == []
    tab.close()
