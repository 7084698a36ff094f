"""What instructors and learners click: formgrader and the Validate button, in a real JupyterLab and Chromium."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from course_run import NOTEBOOK, STAGE, Run, solved

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-quic"]

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
]


@pytest.fixture(scope="module")
def lab(course: Run) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nbformat.write(solved(course.released()), course.folder / "right.ipynb")
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True", "--LabApp.news_url=None",
    ]  # fmt: skip
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with open(course.folder / "lab.log", "wb") as log:
        server = subprocess.Popen(command, cwd=course.folder, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5):
                break
            assert server.poll() is None, (course.folder / "lab.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def page(lab: str) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.set_default_timeout(150_000)
        page.route("**/*", lambda route: route.continue_() if "127.0.0.1" in route.request.url else route.abort())
        yield page
        browser.close()


def test_formgrader_grades_a_submission_by_a_click(course: Run, lab: str, page: Any):
    page.goto(f"{lab}/formgrader/manage_submissions/{STAGE}")
    file = course.folder / "autograded" / "ada" / STAGE / f"{NOTEBOOK}.ipynb"
    before = file.stat().st_mtime_ns
    page.locator("tr", has_text="ada").locator("td.autograde a").click()
    page.wait_for_selector(".modal-title:has-text('Success')")
    assert "ada" in page.locator(".modal-body").first.inner_text()
    assert file.stat().st_mtime_ns > before


def test_formgrader_shows_the_judges_words_beside_the_score(lab: str, page: Any):
    page.goto(f"{lab}/formgrader/gradebook/{STAGE}/{NOTEBOOK}")
    page.wait_for_selector("table tbody a")
    page.locator("table tbody a").first.click()
    page.wait_for_selector(".fd .chips")
    assert page.locator(".fd").count() == 9  # one view for each exercise
    assert page.locator("input.score").count() == 9


def test_the_validate_button_runs_the_public_checks(lab: str, page: Any):
    page.goto(f"{lab}/lab/tree/right.ipynb")
    page.wait_for_selector(".jp-Notebook-cell")
    page.locator("text=Validate").first.click()
    page.wait_for_selector("text=Your notebook passes all the tests")
