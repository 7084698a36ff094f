"""docs/*/security.md names a test for each claim; here is the test that they exist, the same in both languages."""

from __future__ import annotations

import ast
import re

import pytest

from grader.paths import ROOT
from grader.worker.confine import LAYERS

PAGES = {lang: ROOT / "docs" / lang / "security.md" for lang in ("en", "zh")}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows(lang: str, header: str) -> list[list[str]]:
    """The rows of the tables whose header's last cell is this."""
    found: list[list[str]] = []
    wanted = False
    for line in PAGES[lang].read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            wanted = False
        elif cells[-1] == header:
            wanted = True
        elif wanted and not set(cells[0]) <= {"-"}:
            found.append(cells)
    return found


def test_every_test_that_is_named_exists() -> None:
    named = {match for page in PAGES.values() for match in NAMED.findall(page.read_text("utf-8"))}
    assert len(named) > 40
    for file, name in sorted(named):
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file} has no {name}"


@pytest.mark.parametrize(("lang", "header"), [("en", "test"), ("zh", "测试")])
def test_every_claim_names_its_test(lang: str, header: str) -> None:
    claims = rows(lang, header)
    assert len(claims) > 30
    for claim, tests in claims:
        assert NAMED.search(tests), claim
        assert len(NAMED.findall(tests)) == len(re.findall(r"::", tests)), f"misspelt: {tests}"


def test_both_languages_claim_the_same_by_the_same_tests() -> None:
    english, chinese = ([NAMED.findall(tests) for _, tests in rows(lang, header)] for lang, header in
                        (("en", "test"), ("zh", "测试")))  # fmt: skip
    assert english == chinese


@pytest.mark.parametrize(("lang", "header"), [("en", "where"), ("zh", "何处有")])
def test_every_wall_is_explained(lang: str, header: str) -> None:
    assert tuple(wall.lower() for wall, _, _ in rows(lang, header)) == LAYERS
