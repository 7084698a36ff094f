"""What is found, what is said on which line, and what a learner's text cannot do to the runner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader import cli
from grader.course import catalog, notebooks
from grader.pipeline import platforms
from grader.pipeline.annotations import Annotation, notes_of
from grader.pipeline.find import find
from grader.pipeline.summary import summary
from grader.text import Text, say

COURSE = catalog.load(checks=False)


def skeleton(lang: str = "zh"):
    return notebooks.build(COURSE.stage("s1"), lang)


def save(file: Path, notebook) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(notebooks.text_of(notebook), encoding="utf-8")
    return file


def test_the_courses_notebooks_are_found_and_nothing_else(tmp_path: Path) -> None:
    begun = save(tmp_path / "a b" / "作业.ipynb", notebooks.solve(skeleton(), {"s1-cost"}))
    same = skeleton("en")
    same.cells[0].source = "my own heading"
    untouched = save(tmp_path / "untouched.ipynb", same)
    foreign = skeleton()
    del foreign.metadata["flashdojo"]
    save(tmp_path / "foreign.ipynb", foreign)
    save(tmp_path / ".flashdojo" / "hidden.ipynb", notebooks.solve(skeleton()))
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{")
    (tmp_path / "notes.py").write_text("x = 1\n")
    (tmp_path / "link.ipynb").symlink_to("/etc/passwd")
    found = find(tmp_path)
    assert found.to_grade == [begun, broken]
    assert found.untouched == [untouched]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_STEP_SUMMARY", "FLASHDOJO_SECRET"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_nothing_to_grade(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ci", "grade"]) == 2
    assert "no notebook of the course is here" in capsys.readouterr().err
    save(here / "x.ipynb", skeleton())
    assert cli.main(["ci", "grade"]) == 1
    assert "not begun: x.ipynb" in capsys.readouterr().err
    assert cli.main(["ci", "grade", "--platform", "jenkins"]) == 2
    assert not (here / "flashdojo-report").exists()


def test_no_secret_without_walls(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.ipynb").write_text("{")
    monkeypatch.setattr("grader.worker.confine.probe", lambda: {"landlock": (False, "old"), "seccomp": (True, "on")})
    assert cli.main(["ci", "grade"]) == 2
    assert "graded" not in capsys.readouterr().err  # no secret, nothing to lose
    monkeypatch.setenv("FLASHDOJO_SECRET", "a key")
    assert cli.main(["ci", "grade", "--out", "other"]) == 2
    assert "no Landlock, so learner code might read the secret: nothing was graded" in capsys.readouterr().err
    assert not (here / "other").exists()


def test_an_unreadable_one_is_marked_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "broken.ipynb").write_text("{")
    assert cli.main(["ci", "grade", "--platform", "github"]) == 2
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::error")]
    assert len(commands) == 1
    assert commands[0].startswith(
        "::error file=broken.ipynb,line=1,title=cannot be graded::broken.ipynb: not a Jupyter"
    )
    (issue,) = json.loads((here / "flashdojo-report" / "code-quality.json").read_text("utf-8"))
    assert issue["location"] == {"path": "broken.ipynb", "lines": {"begin": 1}}


def check(id: str, points: float = 1, status: str = "failed", text: str = "off", **more) -> dict:
    return {
        "id": id, "concept": "softmax", "visibility": "public", "status": status, "points": points,
        "earned": points if status == "passed" else 0.0, "message": {"zh": text, "en": text}, "misconception": None,
        "evidence": {}, "where": None, "seconds": 0.0, **more,
    }  # fmt: skip


def document(path: Path, *checks: dict) -> dict:
    exercise = {"id": "s1-softmax", "score": 0.0, "max_score": 15.0, "checks": list(checks)}
    entry = {
        "path": str(path), "student": "ann", "stage": "s1", "sha256": None, "status": "graded", "score": 0.0,
        "max_score": 15.0, "seconds": 0.0, "message": None, "repairs": [], "exercises": [exercise],
    }  # fmt: skip
    return {"secret": "public", "submissions": [entry]}


def test_the_dearest_comes_first_and_what_waits_is_left_out(here: Path) -> None:
    (here / "x.py").write_text("import torch\n\n\ndef softmax(x):\n    return x\n")
    notes = notes_of(
        document(
            here / "x.py",
            check("s1-softmax.values", 2, where={"cell": None, "line": 5}),
            check("s1-softmax.dim", 4, text="another dimension"),
            check("s1-softmax.stable", 9, "blocked"),
            check("s1-softmax.half", 9, "passed"),
        ),
        here,
    )
    assert [(note.file, note.line, note.check) for note in notes] == [
        ("x.py", 4, "s1-softmax.dim"),  # no place of its own: the definition
        ("x.py", 5, "s1-softmax.values"),
    ]


def note(**changes) -> Annotation:
    given = {
        "file": "a.py",
        "line": 3,
        "check": "s1-x.y",
        "title": Text("t", "t"),
        "message": Text("m", "m"),
        "weight": 1.0,
    }
    return Annotation(**{**given, **changes})


def test_a_command_holds_whatever_text_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    hostile = say("x", "50%\r\n::error::owned")
    command = platforms.github_command(note(file="a,b:c\n.py", title=say("甲", "a: b, c"), message=hostile))
    assert "\n" not in command
    assert "\r" not in command
    place, message = command.removeprefix("::error ").split("::", 1)
    assert dict(part.split("=", 1) for part in place.split(",")).keys() == {"file", "line", "title"}
    assert message.startswith("50%25%0D%0A")


def test_github_is_told_ten(capsys: pytest.CaptureFixture[str]) -> None:
    platforms.annotate("github", [note(line=number) for number in range(1, 15)])
    assert capsys.readouterr().out.count("::error") == 10


def test_text_for_people_cannot_give_orders(capsys: pytest.CaptureFixture[str]) -> None:
    tokens = set()
    for _ in range(2):
        with platforms.no_commands("github"):
            print("::error::forged")
        first, middle, last = capsys.readouterr().out.splitlines()
        assert middle == "::error::forged"
        assert first.removeprefix("::stop-commands::") == last.strip(":")
        tokens.add(last)
    assert len(tokens) == 2


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GITHUB_ACTIONS": "true"}, "github"),
        ({"GITLAB_CI": "true"}, "gitlab"),
        ({"GITHUB_ACTIONS": "true", "ATOMGIT_SHA": "x"}, "gitcode"),
        ({}, "none"),
    ],
)
def test_the_platform_is_told_by_the_environment(environment: dict[str, str], expected: str) -> None:
    assert platforms.here(environment) == expected


def test_the_summary_is_text_whatever_a_learner_writes(here: Path) -> None:
    (here / "x.py").write_text("def softmax(x):\n    return x\n")
    given = document(here / "x.py", check("s1-softmax.values", text="<img src=x> | [a](http://x) `b`\n# c @ann"))
    text = summary(given, notes_of(given, here), [], here)
    for mark in ("<img", "](", "\n# c", "@ann"):
        assert mark not in text
    rows = [line for line in text.splitlines() if "x.py:1" in line]
    assert len(rows) == 1
    assert rows[0].count("|") == 4


def test_what_is_published_says_nothing_of_private_checks(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = here / ".checks"
    checks.mkdir()
    (checks / "own.py").write_text(
        "from grader.vocabulary import check, say\n\n\n"
        '@check("s1-softmax.own", points=1, concept="stability")\n'
        "def own(ctx):\n"
        '    ctx.fail(say("天机", "the inner circle"), evidence={"got": "a riddle"})\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("FLASHDOJO_CHECKS", str(checks))
    save(here / "work.ipynb", notebooks.solve(skeleton("en"), {"s1-softmax"}))
    assert cli.main(["ci", "grade"]) == 1
    files = [file for file in (here / "flashdojo-report").rglob("*") if file.is_file()]
    texts = {file.name: file.read_text("utf-8") for file in files}
    assert {"results.json", "junit.xml", "summary.md"} <= texts.keys()
    assert [name for name, text in texts.items() if "inner circle" in text or "天机" in text or "riddle" in text] == []
    assert [name for name, text in texts.items() if "s1-softmax.own" in text] == []
    assert "s1-softmax.hidden-1" in texts["results.json"]
