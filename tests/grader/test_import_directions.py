"""Arrows run one way: kernels import neither grader nor stages, stages only the vocabulary of checks and figures."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOR_STAGES = (  # the vocabulary of checks, the figures' colours, and where files of the clone are
    "grader.checking",
    "grader.course.figures",
    "grader.paths",
    "grader.subject",
    "grader.text",
    "grader.vocabulary",
)


def imported(source: str) -> Iterator[str]:
    """Absolute names of modules, and of what is taken from a package, wherever in a file they are imported."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def wrong_in_kernels(name: str) -> bool:
    return within(name, ("grader", "stages", "solutions"))


def wrong_in_stages(name: str) -> bool:
    return within(name, ("grader", "solutions")) and not within(name, FOR_STAGES)


def wrong_in_perf(name: str) -> bool:
    return wrong_in_kernels(name) or within(name, ("kernels.profiles", "kernels.ascend"))


@pytest.mark.parametrize(
    ("folder", "wrong"), [("kernels", wrong_in_kernels), ("stages", wrong_in_stages), ("kernels/perf", wrong_in_perf)]
)
def test_no_import_runs_against_the_arrows(folder, wrong):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        for name in imported(file.read_text("utf-8"))
        if wrong(name)
    ]
    assert not found


def test_an_import_against_the_arrows_is_seen():
    names = list(imported("def f():\n    from grader import profiling\n    import grader.profiling.errors\n"))
    assert [wrong_in_stages(name) for name in names] == [True, True]
    assert [wrong_in_kernels(name) for name in imported("import stages.s1\nfrom . import grader\n")] == [True]
    assert not wrong_in_stages("grader.checking.model_errors.in_words")
