"""Are copies found however they are disguised, and answers that were found independently left in peace?"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.disguises import DISGUISES, USUAL
from benchmarks.similarity import MADE_FROM, PUBLISHED, independent, originals, ours, sources, whole_stages
from grader import cli, paths
from grader.batch import intake
from grader.course import catalog, notebooks
from grader.integrity import compare
from grader.integrity.page import page
from grader.integrity.shape import tokens_of
from grader.integrity.survey import Survey, contract, survey
from grader.reading import submission

STAGES = whole_stages()


@pytest.mark.parametrize("stage", STAGES)
def test_independent_right_answers_are_not_alike(stage: str) -> None:
    found = list(independent(stage, ours))
    assert len(found) >= 28
    assert [(one, other) for _, flagged, one, other in found if flagged] == []
    assert max(degree for degree, *_ in found) < compare.ALIKE - 0.1


@pytest.mark.parametrize("name", DISGUISES)
def test_copies_are_found_in_every_disguise(name: str) -> None:
    for stage in STAGES:
        texts = originals(stage)
        for original in (PUBLISHED, next(iter(texts))):
            copy = DISGUISES[name](texts[original], contract().keys(), random.Random(7))
            degree, flagged = ours(copy, texts[original], original == PUBLISHED)
            assert flagged, (name, stage, original)
            assert degree > 0.85


def test_those_that_were_made_from_others_are_found() -> None:
    texts = {stage: sources(stage) for stage in STAGES}
    for one, other in MADE_FROM.items():
        (stage,) = (stage for stage in STAGES if one in texts[stage])
        assert ours(texts[stage][one], texts[stage][other], other == PUBLISHED)[1], one


def shape(source: str) -> list[str]:
    return [token.text for token in tokens_of(submission.parsed(Path("x.py"), source.encode()), contract().keys())]


PLAIN = """
import torch
def softmax(x, dim=-1):
    top = x.amax(dim, keepdim=True)
    e = (x - top).exp()
    return e / e.sum(dim, keepdim=True)
"""
SAME = '''
import torch as t
def softmax(x: "t.Tensor", dim: int = -1) -> "t.Tensor":
    """Mine."""
    biggest: "t.Tensor" = x.amax(
        dim,
        keepdim=True,
    )
    # another word
    weights = (x - biggest).exp()
    return weights / weights.sum(dim, keepdim=True)
'''


def test_names_layout_comments_and_annotations_leave_the_shape_alone() -> None:
    assert shape(PLAIN) == shape(SAME)
    assert shape("y = a * b * c + d") == shape("z = w + q * (p * r)")


@pytest.mark.parametrize(
    ("before", "after"), [(".exp()", ".exp2()"), ("x - top", "x + top"), ("keepdim=True)\n", "keepdim=False)\n")]
)
def test_what_a_program_does_changes_its_shape(before: str, after: str) -> None:
    assert shape(PLAIN) != shape(PLAIN.replace(before, after, 1))


def class_of(folder: Path, **papers: str) -> Survey:
    for name, text in papers.items():
        (folder / name).write_text(text, encoding="utf-8")
    return survey(intake.collect([folder]))


def disguised(text: str) -> str:
    return USUAL(text, contract().keys(), random.Random(3))


def test_the_skeleton_is_nobodys(tmp_path: Path) -> None:
    text = notebooks.text_of(notebooks.build(catalog.load().stage("s2"), "en"))
    found = class_of(tmp_path, **{"ann.ipynb": text, "bob.ipynb": text})
    assert (found.pairs, found.published) == ([], [])
    assert len(found.papers) == 2


def test_what_comes_from_the_published_solution_is_told_once(tmp_path: Path) -> None:
    text = sources("s2")[PUBLISHED]
    found = class_of(tmp_path, **{"ann.py": text, "bob.py": disguised(text), "cat.py": sources("s2")["base_two"]})
    assert [pair.one.student for pair in found.published] == ["ann", "bob"]
    assert found.pairs == []


def test_one_exercise_copied_into_work_of_ones_own(tmp_path: Path) -> None:
    texts = sources("s2")
    stolen = texts["two_pass_backward"]
    own = texts["generators_and_dataclasses"].replace("def flash_attention_backward", "def mine")
    start = stolen.index("def flash_attention_backward")
    end = stolen.index("\nclass ", start)
    theft = disguised(own + "\n\n" + stolen[start:end])
    found = class_of(tmp_path, **{"ann.py": stolen, "bob.py": theft, "cat.py": texts["plain_loops"]})
    (pair,) = found.pairs
    assert {pair.one.student, pair.other.student} == {"ann", "bob"}
    assert pair.exercises == ["flash_attention_backward"]


def test_an_answer_that_went_round_makes_a_group(tmp_path: Path) -> None:
    one, other = sources("s1")["in_place"], sources("s1")["grouped_matmul"]
    papers = {"ann.py": one, "bob.py": disguised(one), "cat.py": one, "dan.py": other, "eve.py": other, "fay.py": ""}
    found = class_of(tmp_path, **papers | {"gus.py": sources("s1")["einsum_exp2"]})
    assert found.groups == [["ann", "bob", "cat"]]
    assert len(found.pairs) == 4
    assert [entry.student for entry, _ in found.unread] == ["fay"]


def test_two_files_of_one_student_are_not_compared(tmp_path: Path) -> None:
    text = sources("s1")["in_place"]
    for name in ("a.py", "b.py"):
        file = tmp_path / "submitted" / "ann" / "s1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    found = survey(intake.collect([tmp_path / "submitted"]))
    assert len(found.papers) == 2
    assert found.pairs == []


def test_the_page_shows_both_and_escapes_what_learners_write(tmp_path: Path) -> None:
    text = sources("s1")["in_place"] + "\nx = '<script>alert(1)</script>'\n"
    found = class_of(tmp_path, **{"ann.py": text, "bob.py": text, "carl.py": "x = (\n"})
    html = page(found, lang="zh")
    assert "ann" in html
    assert "bob" in html
    assert "<script>alert" not in html
    assert html.count('class="row marked"') > 40


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = sources("s1")["in_place"]
    class_of(tmp_path, **{"ann.py": text, "鲍勃.py": disguised(text), "carl.py": sources("s1")["einsum_exp2"]})
    assert cli.main(["instructor", "similarity", str(tmp_path), "--out", str(tmp_path / "o"), "--lang", "en"]) == 0
    told = capsys.readouterr().out
    assert "鲍勃" in told
    assert "carl" not in told
    assert (tmp_path / "o" / "similarity.html").is_file()
    assert cli.main(["instructor", "similarity", str(tmp_path), "--json"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["pairs"]
    assert set(pair["students"]) == {"ann", "鲍勃"}


def test_what_cannot_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ann.py").write_text(sources("s1")["in_place"], encoding="utf-8")
    (tmp_path / "bob.py").write_bytes(b"")
    assert cli.main(["instructor", "similarity", str(tmp_path), "--lang", "en"]) == 2
    assert "bob was not compared" in capsys.readouterr().err
    assert cli.main(["instructor", "similarity", str(tmp_path / "bob.py"), "--lang", "en"]) == 2
    assert cli.main(["instructor", "similarity", str(paths.ROOT / "nothing"), "--lang", "en"]) == 2
