"""Skeletons, solutions and lessons, on small sources of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.lesson import (
    LessonError,
    in_language,
    join_headers,
    read_cells,
    read_lesson,
    skeletonise,
    solved,
    split_header,
)

SOURCE = '''\
import math

import torch


def twice(x):
    """Two times x."""
    # zh: 乘以二
    # en: times two
    ### BEGIN SOLUTION
    y = 2 * x
    ### END SOLUTION
    # kept as it is
    ### BEGIN SOLUTION
    return y
    ### END SOLUTION
'''


def test_a_skeleton_replaces_each_region_and_keeps_the_rest() -> None:
    assert skeletonise(SOURCE, "zh", "t-twice") == (
        'import math\n\nimport torch\n\n\ndef twice(x):\n    """Two times x."""\n    # 乘以二\n'
        '    # 在这里写代码\n    raise NotImplementedError("t-twice")\n    # kept as it is\n'
        '    # 在这里写代码\n    raise NotImplementedError("t-twice")\n'
    )


def test_a_solution_loses_its_marks_only() -> None:
    text = solved(SOURCE, "en")
    assert "    # times two\n    y = 2 * x\n    # kept as it is\n    return y\n" in text
    assert "SOLUTION" not in text
    assert "乘" not in text


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (SOURCE.replace("    ### END SOLUTION\n", "", 1), "without its partner"),
        (SOURCE.rsplit("    ### END", 1)[0], "has no ### END SOLUTION"),
        (SOURCE.replace("### BEGIN SOLUTION", "#").replace("### END SOLUTION", "#"), "skeleton would be the solution"),
    ],
)
def test_wrong_regions_are_refused(broken: str, says: str) -> None:
    with pytest.raises(LessonError, match=says):
        skeletonise(broken, "en", "t-twice")


def test_adjacent_comments_are_one_paragraph_and_steps_begin_their_own() -> None:
    words = " ".join(["word"] * 12)
    source = f"    # en: {words}\n    # en: {words}\n    # en: Step 2: go on\n"
    lines = in_language(source, "en").splitlines()
    assert lines[-1] == "    # Step 2: go on"
    assert " ".join(line.removeprefix("    # ") for line in lines[:-1]) == f"{words} {words}"
    assert all(len(line) <= 92 for line in lines)


def test_chinese_wraps_by_width_and_no_line_begins_with_a_closing_mark() -> None:
    source = "# zh: " + "数值稳定的，" * 30 + "\n"
    lines = in_language(source, "zh").splitlines()
    assert len(lines) > 1
    assert "".join(line[2:] for line in lines) == "数值稳定的，" * 30
    assert not any(line[2] == "，" for line in lines)


def test_a_chinese_line_ends_between_two_words_where_it_can() -> None:
    for length in range(33, 45):
        one, two = in_language(f"# zh: {'长' * length}，最大值看不见的位置（见上）\n", "zh").splitlines()
        assert one.endswith(("，", "位置"))
        assert two.startswith(("# 最大值", "# （见上）"))
    assert in_language("# zh: " + "长" * 50 + "\n", "zh") == f"# {'长' * 45}\n# {'长' * 5}\n"


def test_headers_are_split_off_and_joined_without_repetition() -> None:
    imports, body = split_header(SOURCE)
    assert imports == ["import math", "import torch"]
    assert body.startswith("def twice(x):")
    assert join_headers([*imports, *imports, "import torch.nn as nn"]) == (
        "import math\n\nimport torch\nimport torch.nn as nn"
    )


def test_a_lesson_has_an_introduction_and_sections_with_places(tmp_path: Path) -> None:
    path = tmp_path / "lesson.en.md"
    path.write_text("Hello.\n\n<!-- exercise: t-twice -->\nIdea.\n<!-- picture -->\nMore.\n", encoding="utf-8")
    intro, sections = read_lesson(path)
    assert intro == "Hello."
    assert [(piece.role, piece.text) for piece in sections["t-twice"]] == [
        ("lesson", "Idea."),
        ("picture", ""),
        ("lesson", "More."),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!-- exercise: a -->\nx\n<!-- exercise: a -->\ny\n", "two sections for a"),
        ("<!-- exercise: a -->\nx\n<!-- pictures -->\n", "<!-- pictures --> is none of"),
    ],
)
def test_wrong_lessons_are_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "lesson.en.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LessonError, match=says):
        read_lesson(path)


def test_given_cells_are_found_by_exercise_and_role(tmp_path: Path) -> None:
    path = tmp_path / "cells.py"
    path.write_text('"""Doc."""\n\n# %% a picture\nx = 1\n\n\n# %% a given\ny = 2\n', encoding="utf-8")
    assert read_cells(path) == {("a", "picture"): "x = 1\n", ("a", "given"): "y = 2\n"}
    path.write_text("# %% a answer\nx = 1\n", encoding="utf-8")
    with pytest.raises(LessonError, match="roles are"):
        read_cells(path)
