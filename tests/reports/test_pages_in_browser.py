"""Can everybody read the pages? In Chromium: accessibility rules, phones, the dark, both languages, every glyph."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import entry_of

from grader.reports import Written, write_reports

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
    pytest.mark.xdist_group("reports"),  # one grading of the class serves them all
]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
NO_GLYPH = "\u0378"  # unassigned, so no font has it

DRAWS = """
(text) => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 48;
  const paper = canvas.getContext('2d', {willReadFrequently: true});
  paper.font = '24px ' + getComputedStyle(document.body).fontFamily;
  const drawn = (sign) => {
    paper.clearRect(0, 0, 48, 48);
    paper.fillText(sign, 8, 32);
    return paper.getImageData(0, 0, 48, 48).data.join();
  };
  const missing = drawn('\\u0378');
  return [...new Set(text)].filter((sign) => sign.trim() && drawn(sign) === missing);
}
"""


@pytest.fixture
def written(document: dict[str, Any], tmp_path: Path) -> Written:
    return write_reports(document, tmp_path, lang="zh")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    """Opens a file with everything on it unfolded; whatever it asks of the network fails the test."""
    contexts = []

    def open_page(file: Path, **settings: Any) -> Any:
        context = chromium.new_context(**{"viewport": DESK, **settings})
        contexts.append(context)
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        assert asked == [page.url]
        assert errors == []
        return page

    yield open_page
    for context in contexts:
        context.close()


def pages_of(written: Written, document: dict[str, Any], *students: str) -> list[Path]:
    places = [document["submissions"].index(entry_of(document, student)) for student in students]
    assert written.class_page
    return [written.class_page, *(written.pages[place] for place in places)]


def unfold(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


@pytest.mark.parametrize(("viewport", "scheme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk", "phone in the dark"])
def test_no_serious_finding_of_axe(
    written: Written, document: dict[str, Any], opened: Any, scheme: str, viewport: dict[str, int]
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for file in pages_of(written, document, "chen", "ivan", "ada", "赵 六"):
        page = opened(file, color_scheme=scheme, viewport=viewport)
        unfold(page)
        found = Axe().run(page).response
        assert found["passes"]
        serious = [
            (rule["id"], rule["help"], [node["html"][:200] for node in rule["nodes"]][:3])
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
        ]
        assert serious == [], file.name


def test_every_glyph_is_there(written: Written, document: dict[str, Any], opened: Any) -> None:
    for file in pages_of(written, document, "chen", "dana", "jade", "赵 六"):
        page = opened(file)
        unfold(page)
        for lang in ("zh", "en"):
            page.check(f'.switch input[value="{lang}"]', force=True)
            text = page.inner_text("body")
            assert ("隔离" in text) == (lang == "zh")
            assert page.evaluate(DRAWS, text) == [], "install a Chinese font, such as fonts-wqy-microhei"
    assert page.evaluate(DRAWS, f"中{NO_GLYPH}") == [NO_GLYPH]  # the test itself sees a missing one


def test_nothing_is_wider_than_a_phone(written: Written, document: dict[str, Any], opened: Any) -> None:
    for file in pages_of(written, document, "chen", "ivan", "jade"):
        page = opened(file, viewport=PHONE)
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], file.name


def test_one_screen_says_what_where_and_what_next(written: Written, document: dict[str, Any], opened: Any) -> None:
    file = pages_of(written, document, "ivan")[1]
    for viewport in (DESK, PHONE):
        page = opened(file, viewport=viewport)
        for selector in (".score b", ".step h3", ".step .meta", ".step .explain"):
            box = page.locator(selector).first.bounding_box()
            assert box["y"] + box["height"] < viewport["height"], selector


def test_the_language_is_switched_without_script_and_remembered_with_it(
    written: Written, document: dict[str, Any], opened: Any
) -> None:
    file = pages_of(written, document, "ada")[1]
    for script in (False, True):
        page = opened(file, java_script_enabled=script)
        assert page.is_visible("text=全部检查都通过了")
        page.check('.switch input[value="en"]', force=True)
        assert page.is_visible("text=Every check passes")
        assert not page.is_visible("text=全部检查都通过了")
    assert page.evaluate("document.documentElement.lang") == "en"
    page.reload()
    assert page.is_visible("text=Every check passes")


def test_a_link_to_an_exercise_opens_it(written: Written, document: dict[str, Any], opened: Any) -> None:
    page = opened(pages_of(written, document, "chen")[1])
    assert not page.locator("#s2-forward .checks").is_visible()
    page.click('.strip a[href="#s2-forward"]')
    page.wait_for_function("document.getElementById('s2-forward').open")
    assert page.locator("#s2-forward .checks").is_visible()


def test_bars_are_as_high_as_their_counts(written: Written, opened: Any) -> None:
    assert written.class_page
    page = opened(written.class_page)
    counts = [int(text or 0) for text in page.locator(".bars .count").all_inner_texts()]
    heights = [bar.bounding_box()["height"] - 2 for bar in page.locator(".bars i").all()]
    assert sum(counts) == 8
    assert len(set(counts)) > 2
    assert heights == pytest.approx([count * max(heights) / max(counts) for count in counts], abs=0.5)


def test_the_class_page_leads_to_the_learners_pages(written: Written, document: dict[str, Any], opened: Any) -> None:
    assert written.class_page
    page = opened(written.class_page)
    page.click('.matrix a:text-is("chen")')
    page.wait_for_url("**/chen-s2.html")
    assert page.inner_text("h1") == "chen"
