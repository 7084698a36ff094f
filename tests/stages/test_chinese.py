"""Chinese is set as Chinese is: full-width punctuation, no space after it, lines that end where a phrase does."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grader import paths

HAN = "\u4e00-\u9fff"
WIDE = "。，、；：？！）》”"
CODE = re.compile(r"`[^`]*`|\$[^$]*\$|\[[^\]]*\]|\([^()]*\)|\w+\.\w+|\{[^}]*\}")  # spans that follow other rules
NITS = {
    "a space after full-width punctuation": re.compile(f"[{WIDE[:-2]}] (?=[^ |])"),
    "half-width punctuation after a Chinese character": re.compile(f"[{HAN}][,:;?!]"),
    "half-width punctuation before a Chinese character": re.compile(f"[,:;?!] ?[{HAN}]"),
    "a full stop after a Chinese character": re.compile(rf"[{HAN}]\.(\s|$)"),
}
STAGES = sorted(paths.STAGES.glob("s*_*"))
PYTHON = sorted(
    file
    for folder in (paths.STAGES, paths.ROOT / "grader", paths.ROOT / "solutions")
    for file in folder.rglob("*.py")
    if "__pycache__" not in file.parts
)
OTHERS = [file for stage in STAGES for file in (stage / "lesson.zh.md", *sorted(stage.glob("*.toml")))]
OTHERS.append(paths.ROOT / "grader" / "checking" / "misconceptions.toml")


def texts(file: Path) -> Iterator[str]:
    """Every Chinese text of a file: what learners read."""
    source = file.read_text("utf-8")
    if file.suffix == ".py":
        yield from re.findall(r"# zh: *(.*)", source)
        yield from filter(re.compile(f"[{HAN}]").search, strings(ast.parse(source)))
    elif file.suffix == ".toml":
        yield from zh_values(tomllib.loads(source))
    else:
        yield from source.splitlines()


def strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def zh_values(table: Any) -> Iterator[str]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield from [value] if key == "zh" and isinstance(value, str) else zh_values(value)
    elif isinstance(table, list):
        for item in table:
            yield from zh_values(item)


def nits(text: str) -> list[str]:
    plain = CODE.sub("x", text.replace("# zh:", ""))
    return [f"{what}: {text}" for what, pattern in NITS.items() if pattern.search(plain)]


@pytest.mark.parametrize("file", [*PYTHON, *OTHERS], ids=lambda file: str(file.relative_to(paths.ROOT)))
def test_punctuation(file: Path) -> None:
    assert [nit for text in texts(file) for nit in nits(text)] == []


@pytest.mark.parametrize("file", PYTHON, ids=lambda file: str(file.relative_to(paths.ROOT)))
def test_a_comment_goes_on_in_the_next_line_after_a_phrase_only(file: Path) -> None:
    found = [re.match(r"\s*# zh: *(.*)", line) for line in file.read_text("utf-8").splitlines()]
    broken = [first[1] for first, second in pairwise(found) if first and second and first[1][-1] not in WIDE]
    assert broken == []


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_paragraph_is_one_line(stage: Path) -> None:
    """A line end inside a paragraph is shown as a space."""
    text = (stage / "lesson.zh.md").read_text("utf-8")
    assert re.findall(f"^.*[{HAN}{WIDE}]\n[{HAN}].*$", text, re.MULTILINE) == []


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("先改它。再看 x。", True),
        ("形状是 [行数, 1]，见 `a: b`。", True),
        ("先改它。 再看 x。", False),
        ("注意: 别忘了。", False),
        ("x 大,y 小", False),
        ("大小,长短", False),
        ("到此为止.", False),
    ],
)
def test_the_rules(text: str, right: bool) -> None:
    assert (nits(text) == []) == right
