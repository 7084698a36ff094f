"""``profile report`` and ``profile open``: the page of a profile as a file, and in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from grader.commands.base import short, tell
from grader.exit_codes import PASSED
from grader.profiling import asking
from grader.profiling.facts import with_chip
from grader.profiling.reading import read_profile
from grader.text import say
from grader.views.progress import waiting
from kernels.profiles import Profile


def report(folder: Path, before: Path | None, out: Path | None, soc_name: str | None) -> int:
    made = _write(folder, before, out, soc_name)
    tell(say("网页：{made}", "page: {made}", made=short(made)))
    return PASSED


def open_page(folder: Path, before: Path | None, soc_name: str | None) -> int:
    made = _write(folder, before, None, soc_name)
    if _has_a_screen() and webbrowser.open(made.resolve().as_uri()):
        tell(say("已在浏览器中打开：{made}", "opened in the browser: {made}", made=short(made)))
    else:
        tell(say("这里没有浏览器，网页在 {made}", "there is no browser here; the page is {made}", made=made.resolve()))
    return PASSED


def _write(folder: Path, before: Path | None, out: Path | None, soc_name: str | None) -> Path:
    soc = asking.chip(soc_name) if soc_name else None
    with waiting(say("读取 profile", "reading the profile")):
        profile = with_chip(read_profile(folder), soc)
        old = with_chip(read_profile(before), soc) if before else None
    from grader.profiling.page import page
    from grader.reports.write import save

    with waiting(say("写网页", "writing the page")):
        return save(out or _beside(folder, profile), page(profile, old))


def _beside(given: Path, profile: Profile) -> Path:
    """Where the page lies if nobody says: next to the profile's folder, or to the table that was given."""
    path = (given if given.is_file() else profile.path).resolve()
    return path.parent / f"{path.name.removesuffix('.csv')}.html"


def _has_a_screen() -> bool:
    """A browser in the terminal would take the terminal over."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
