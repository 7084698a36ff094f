"""An instructor's own checks: they join the course's, take their points from the exercise, and stay out of reach."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

from grader import cli, paths, results
from grader.course import catalog, notebooks
from grader.course.private import PrivateChecksError, digest, with_private
from grader.judging.desk import Desk
from grader.reading import submission
from grader.text import LANGUAGES

HEAD = """
from grader.vocabulary import check, say
import torch
"""

WIDE = """
@check("s1-softmax.wide-rows", points={points}, concept="stability", needs=("s1-softmax.values",))
def wide_rows(ctx):
    x = torch.tensor(ctx.rng().normal(size=(3, 70000)).astype("float32"))
    got = ctx.subject.call("softmax", x, -1).value
    if got.sum() < {least}:
        ctx.fail(say("和不对", "the sum is off"))
"""


def folder_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "我的检查"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return folder


def solved(tmp_path: Path, more: str = "") -> submission.Program:
    notebook = notebooks.solve(notebooks.build(catalog.load().stage("s1"), "en"))
    notebook.cells[1].source += "\n" + more
    file = tmp_path / "solved.ipynb"
    file.write_text(notebooks.text_of(notebook), encoding="utf-8")
    return submission.read(file)


def refusal(folder: Path) -> PrivateChecksError:
    with pytest.raises(PrivateChecksError) as caught:
        with_private(catalog.load(), folder)
    assert "\n" not in caught.value.message.zh + caught.value.message.en
    return caught.value


@pytest.fixture(scope="module")
def desk():
    with Desk() as desk:
        yield desk


def softmax(desk: Desk, program: submission.Program, course: catalog.Catalog) -> dict:
    row = desk.grade(program, course.stage("s1"), exercises={"s1-softmax"})
    assert row["status"] == "graded", row["message"]
    return row["exercises"][0]


def test_they_are_graded_behind_the_courses_own_and_hidden(desk: Desk, tmp_path: Path) -> None:
    course = with_private(catalog.load(), folder_of(tmp_path, mine=WIDE.format(points=3, least=2.9)))
    row = softmax(desk, solved(tmp_path), course)
    assert row["score"] == row["max_score"] == 15
    last = row["checks"][-1]
    assert (last["id"], last["visibility"], last["points"]) == ("s1-softmax.wide-rows", "hidden", 3)


def test_what_fails_only_there_costs_its_points_alone(desk: Desk, tmp_path: Path) -> None:
    course = with_private(catalog.load(), folder_of(tmp_path, mine=WIDE.format(points=3, least=99)))
    row = softmax(desk, solved(tmp_path), course)
    assert (row["score"], row["max_score"]) == (12, 15)
    assert row["checks"][-1]["message"] == {"zh": "和不对", "en": "the sum is off"}


def test_no_points_cost_nothing_and_still_show(desk: Desk, tmp_path: Path) -> None:
    course = with_private(catalog.load(), folder_of(tmp_path, mine=WIDE.format(points=0, least=99)))
    row = softmax(desk, solved(tmp_path), course)
    assert row["score"] == row["max_score"] == 15
    assert row["checks"][-1]["status"] == "failed"


def test_public_checks_leave_them_out(desk: Desk, tmp_path: Path) -> None:
    course = with_private(catalog.load(), folder_of(tmp_path, mine=WIDE.format(points=3, least=99)))
    row = desk.grade(solved(tmp_path), course.stage("s1"), exercises={"s1-softmax"}, only_public=True)
    assert "s1-softmax.wide-rows" not in {check["id"] for check in row["exercises"][0]["checks"]}


@pytest.mark.parametrize("points", ["0.01", "1", "3.33", "7.5"])
def test_every_exercise_keeps_its_total_to_the_hundredth(tmp_path: Path, points: str) -> None:
    course = with_private(catalog.load(), folder_of(tmp_path, mine=WIDE.format(points=points, least=0)))
    for stage in course.stages:
        assert stage.points == 100
        for exercise in stage.exercises:
            total = sum(results.points(check.points) for check in exercise.checks)
            assert total == pytest.approx(exercise.points, abs=1e-9), exercise.id


def test_the_course_itself_is_left_as_it_was(tmp_path: Path) -> None:
    before = [(check.id, check.points) for e in catalog.load().stage("s1").exercises for check in e.checks]
    with_private(catalog.load(), folder_of(tmp_path, mine=WIDE.format(points=3, least=0)))
    assert before == [(check.id, check.points) for e in catalog.load().stage("s1").exercises for check in e.checks]


def test_files_share_helpers_and_an_edit_counts(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        _helper="LEAST = 1.0\n",
        mine=WIDE.format(points=1, least="_least()") + "\nfrom ._helper import LEAST\ndef _least(): return LEAST\n",
    )
    first = digest(folder)
    assert with_private(catalog.load(), folder).exercise("s1-softmax").checks[-1].points == 1
    (folder / "mine.py").write_text(HEAD + WIDE.format(points=2, least=0), encoding="utf-8")
    assert digest(folder) != first
    assert with_private(catalog.load(), folder).exercise("s1-softmax").checks[-1].points == 2
    assert sorted(path.name for path in folder.iterdir()) == ["_helper.py", "mine.py"]


def test_learner_code_cannot_read_them(desk: Desk, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, mine=WIDE.format(points=3, least=2.9))
    for path in (folder, *folder.iterdir(), *folder.parents[:3]):
        path.chmod(0o755)
    desk.template.start()
    if not desk.template.layers["landlock"][0]:
        pytest.skip("this kernel has no Landlock")
    peek = f"import os\nprint(os.listdir({str(folder)!r}))\nprint(open({str(folder / 'mine.py')!r}).read())\n"
    program = solved(tmp_path, peek + "if any('CHECKS' in name for name in os.environ): raise RuntimeError\n")
    row = desk.grade(program, with_private(catalog.load(), folder).stage("s1"), exercises={"s1-cost"})
    told = " ".join(text["en"] for text in row["repairs"])
    assert len(re.findall(r"\((?:PermissionError|FileNotFoundError)\)", told)) == 2  # Landlock says no, or it is hidden
    assert "RuntimeError" not in told


def test_the_command_tells_graded_with_them_from_graded_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = solved(tmp_path).path, tmp_path / "out"
    folder = folder_of(tmp_path, mine=WIDE.format(points=3, least=99))

    def graded(*options: str) -> tuple[int, float]:
        code = cli.main(["grade", str(file), "--json", "--out", str(out), *options])
        document = json.loads(capsys.readouterr().out)
        results.validate(document)
        return code, document["submissions"][0]["score"]

    assert graded() == (0, 100)
    assert graded("--checks", str(folder)) == (1, 97)  # not what was kept a moment ago
    monkeypatch.setenv("FLASHDOJO_CHECKS", str(folder))
    assert graded() == (1, 97)
    (folder / "mine.py").write_text(HEAD + WIDE.format(points=2, least=99), encoding="utf-8")
    assert graded() == (1, 98)
    monkeypatch.setenv("FLASHDOJO_CHECKS", str(tmp_path / "nowhere"))
    assert cli.main(["grade", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (WIDE.format(points=8, least=0), "half of the exercise, 7.5"),
        (WIDE.format(points=-1, least=0), "must not be negative"),
        (WIDE.format(points=0.125, least=0), "two decimals"),
        (WIDE.format(points="float('nan')", least=0), "must not be negative"),
        (WIDE.format(points=1, least=0).replace("s1-softmax.w", "s9-softmax.w"), "the exercise one of s1-softmax"),
        (WIDE.format(points=1, least=0).replace("s1-softmax.wide-rows", "s1-softmax"), "the id must be EXERCISE.NAME"),
        (WIDE.format(points=1, least=0).replace("wide-rows", "values"), "the id is taken"),
        (WIDE.format(points=1, least=0).replace('"stability"', '"magic"'), "no concept magic"),
        (WIDE.format(points=1, least=0).replace("softmax.values", "cost.flops"), "needs s1-cost.flops"),
        ("def broken(:\n", "line 4: cannot be imported: SyntaxError"),
        ("\nimport nothing_of_the_kind\n", "line 5: cannot be imported: ModuleNotFoundError"),
        ("x = 1\n", "holds no checks"),
    ],
)
def test_mistakes_are_told_to_their_author(tmp_path: Path, source: str, expected: str) -> None:
    assert expected in refusal(folder_of(tmp_path, mine=source)).message.en


def test_what_they_read_beside_them_counts_and_caches_do_not(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, mine=WIDE.format(points=1, least=0))
    before = digest(folder)
    for name in ("__pycache__/mine.pyc", ".git/index"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("x")
    assert digest(folder) == before
    (folder / "cases.json").write_text("[1]")
    one = digest(folder)
    (folder / "cases.json").write_text("[2]")
    assert len({before, one, digest(folder)}) == 3


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    bad = WIDE.format(points=-1, least=0).replace('"stability"', '"magic"')
    message = refusal(folder_of(tmp_path, one=bad, two=bad.replace("wide", "broad"))).message
    assert "4 mistakes" in message.en
    assert "4 处错误" in message.zh
    assert message.en.endswith("and more")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_example_in_the_documents(desk: Desk, tmp_path: Path, lang: str) -> None:
    text = (paths.ROOT / "docs" / lang / "integrity.md").read_text("utf-8")
    folder = folder_of(tmp_path)
    (folder / "softmax.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], encoding="utf-8")
    row = softmax(desk, solved(tmp_path), with_private(catalog.load(), folder))
    assert (row["score"], row["checks"][-1]["id"]) == (15, "s1-softmax.wide-rows")


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert "cannot be opened" in refusal(tmp_path / "nowhere").message.en
    assert "cannot be opened" in refusal(paths.ROOT / "README.md").message.en
