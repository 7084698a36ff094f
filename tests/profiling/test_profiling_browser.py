"""The pages of profiles as a browser shows them: drawn, in both languages, on a phone, in the dark, for everybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.commands.profile.sweep import by_tile
from grader.profiling.page import page, sweep_page
from kernels.perf import SCHEDULES, Shape, best, find_soc, grid, predict, sweep
from kernels.profiles import kernel_run, read, training_step, write_msprof, write_pytorch

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
VIEWS = [("zh", PHONE, "light"), ("zh", DESK, "dark"), ("en", PHONE, "dark"), ("en", DESK, "light")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A comparison, a training, a table without pipes and times, a sweep."""
    from grader.profiling.model_of import about

    folder = tmp_path_factory.mktemp("pages")
    soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096)
    runs = {name: predict(soc, shape, SCHEDULES[name]) for name in ("v4", "v8")}
    made = {
        name: read(write_pytorch(folder / name, [kernel_run(run, shape, soc)], about=about(run, name)))
        for name, run in runs.items()
    }
    training = read(write_msprof(folder / "training", training_step(find_soc("910B3"), steps=2)))
    bare = folder / "op_summary_1.csv"
    bare.write_text("Op Name,OP Type,Task Duration(us)\n" + "a,Add,1.5\n" * 3)
    outcomes = sweep(soc, shape, grid(SCHEDULES["v8"], preload=(3,), slots=((2, 2, 4),)))
    winner = best(outcomes)
    assert winner is not None
    texts = {
        "compare": page(made["v8"], made["v4"], lang="zh"),
        "training": page(training, lang="zh"),
        "bare": page(read(bare), lang="zh"),
        "sweep": sweep_page(soc, shape, by_tile(outcomes), winner, lang="zh"),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


PICTURES = {"compare": 5, "training": 3, "bare": 0, "sweep": 1}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(("lang", "viewport", "scheme"), VIEWS)
def test_everybody_can_read_it(
    chromium: Any, files: dict[str, Path], name: str, lang: str, viewport: dict[str, int], scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    context = chromium.new_context(viewport=viewport, color_scheme=scheme)
    tab = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text))
    tab.goto(files[name].as_uri())
    tab.check(f"input[name=lang][value={lang}]", force=True)
    tab.wait_for_function(f"document.documentElement.dataset.drawn === '{lang}'")
    tab.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert asked == [tab.url]
    assert wrong == []
    assert tab.locator(".picture .main-svg").count() >= PICTURES[name]
    assert tab.locator(".picture").count() == PICTURES[name]
    for picture in tab.locator(".picture > div").all():
        inside = picture.evaluate("d => [d.clientWidth, d.querySelector('.main-svg').clientWidth, d.ariaLabel]")
        assert 0 < inside[1] <= inside[0] + 1
        assert any("\u4e00" <= letter <= "\u9fff" for letter in inside[2]) == (lang == "zh")
    assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    ink, paper = tab.evaluate(
        "['--ink', '--card'].map(v => getComputedStyle(document.documentElement).getPropertyValue(v))"
    )
    for tick in tab.locator(".picture .ytick text").all()[:1]:
        assert tick.evaluate("t => getComputedStyle(t).fill") == tab.evaluate(
            "c => { const d = document.createElement('i'); d.style.color = c; document.body.append(d); "
            "const found = getComputedStyle(d).color; d.remove(); return found; }",
            ink,
        )
    assert ink != paper
    found = axe.Axe().run(tab).response["violations"]
    serious = [
        (item["id"], item["nodes"][0]["html"][:200]) for item in found if item["impact"] in ("serious", "critical")
    ]
    assert serious == []
    context.close()


def test_every_picture_has_a_key_that_wraps_and_is_spoken(chromium: Any, files: dict[str, Path]) -> None:
    tab = chromium.new_page(viewport=PHONE)
    tab.goto(files["compare"].as_uri())
    assert tab.locator("#figure-units + .keys").inner_text().split() == ["之前", "之后"]
    tab.check("input[name=lang][value=en]", force=True)
    tab.wait_for_function("document.documentElement.dataset.drawn === 'en'")
    assert tab.locator("#figure-units + .keys").inner_text().split() == ["before", "after"]
    assert tab.locator(".keys").count() == 4  # the buffers need none
    tab.close()


def test_without_scripts_the_numbers_are_there(chromium: Any, files: dict[str, Path]) -> None:
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(files["compare"].as_uri())
    assert tab.is_visible("text=图需要脚本")
    assert tab.locator("table.narrow td.r").count() == 3
    tab.check("input[name=lang][value=en]", force=True)
    assert tab.is_visible("text=Compared with before")
    context.close()
