"""The proofs themselves: that they fail when what they claim is not so, and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grader.course import catalog, notebooks
from grader.proving import proofs
from grader.proving.proofs import Unproven


def check(name: str, status: str, misconception: str | None = None) -> dict[str, Any]:
    return {
        "id": name,
        "status": status,
        "misconception": misconception,
        "message": {"zh": "话", "en": "words"},
        "earned": 1.0 if status == "passed" else 0.0,
    }


class FakeRunner:
    """Answers what it is told to, for the exercise ``s1-softmax``, and full marks for the others."""

    def __init__(self, *checks: dict[str, Any]):
        self.checks = list(checks)
        self.text = ""

    def grade(self, path: Path, stage: catalog.Stage, exercises: Any = None) -> dict[str, Any]:
        self.text = path.read_text("utf-8")
        rows = []
        for exercise in stage.exercises:
            checks = self.checks if exercise.id == "s1-softmax" else [check(f"{exercise.id}.values", "passed")]
            score = sum(row["earned"] for row in checks)
            rows.append({"id": exercise.id, "score": score, "max_score": len(checks), "checks": checks})
        return {"exercises": [row for row in rows if exercises is None or row["id"] in exercises]}

    grade_hostile = grade


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a file of a proof set of stage 1 and returns its proof."""

    def make(kind: str, text: str) -> proofs.Proof:
        folder = tmp_path / kind / "s1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sample.py").write_text(text)
        monkeypatch.setitem(proofs.SETS, kind, tmp_path / kind)
        (proof,) = proofs.collect("s1", [kind])
        return proof

    return make


WRONG = "# flashdojo: exercise=s1-softmax check=s1-softmax.dim misconception=softmax-dim\ndef softmax(x, dim=-1): ...\n"


def test_a_wrong_answer_is_proven_when_its_check_fails_with_its_idea(sample: Any) -> None:
    runner = FakeRunner(check("s1-softmax.dim", "failed", "softmax-dim"))
    sample("wrong", WRONG).run(runner)
    assert runner.text.count("def softmax") == 1  # the solution of this exercise stays out ...
    assert "def scaled_dot_product_attention" in runner.text  # ... those of the others come in


@pytest.mark.parametrize(
    ("checks", "complaint"),
    [
        ([check("s1-softmax.dim", "passed")], "s1-softmax.dim passes; it is meant to catch this"),
        ([check("s1-softmax.dim", "failed")], "softmax-dim is not named"),
        ([check("s1-softmax.dim", "failed", "no-max")], "softmax-dim is not named (named: no-max)"),
        (
            [check("s1-softmax.dim", "failed", "softmax-dim"), check("s1-softmax.a", "failed", "no-max")],
            "no-max is named, which is not what is wrong",
        ),
        ([check("s1-softmax.other", "failed")], "names the check s1-softmax.dim, which s1-softmax does not have"),
    ],
)
def test_a_wrong_answer_is_not_proven_otherwise(sample: Any, checks: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(Unproven) as caught:
        sample("wrong", WRONG).run(FakeRunner(*checks))
    assert complaint in str(caught.value)


def test_a_sample_without_a_header_is_refused(sample: Any) -> None:
    with pytest.raises(Unproven, match="begins without a line"):
        sample("wrong", "def softmax(x): ...\n").run(FakeRunner())


@pytest.mark.parametrize("kind", ["cheats", "hostile"])
def test_a_cheat_that_earns_a_point_is_found(sample: Any, kind: str) -> None:
    text = "# flashdojo: exercise=s1-softmax\ndef softmax(x, dim=-1): ...\n"
    sample(kind, text).run(FakeRunner(check("s1-softmax.values", "failed")))
    with pytest.raises(Unproven, match="earns points"):
        sample(kind, text).run(FakeRunner(check("s1-softmax.values", "passed"), check("s1-softmax.dim", "failed")))


def test_a_right_answer_that_loses_a_point_is_found(sample: Any) -> None:
    sample("right", "x = 1\n").run(FakeRunner(check("s1-softmax.values", "passed")))
    with pytest.raises(Unproven, match="gets 0 of 1"):
        sample("right", "x = 1\n").run(FakeRunner(check("s1-softmax.values", "failed")))


def test_a_skeleton_that_earns_points_is_found() -> None:
    proof = next(proof for proof in proofs.collect("s1", ["skeletons"]) if proof.name == "s1-softmax")
    proof.run(FakeRunner(check("s1-softmax.values", "failed", "not-implemented")))
    with pytest.raises(Unproven, match="a check passes without an answer"):
        proof.run(FakeRunner(check("s1-softmax.values", "passed")))
    with pytest.raises(Unproven, match="for another reason"):
        proof.run(FakeRunner(check("s1-softmax.values", "failed", "missing")))


def test_notebooks_out_of_date_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (proof,) = [proof for proof in proofs.collect("s1", ["notebooks"]) if proof.name == "up to date"]
    monkeypatch.setattr(notebooks, "stale", lambda: [Path("notebooks/zh/x.ipynb")])
    with pytest.raises(Unproven, match="Run `flashdojo dev build`"):
        proof.run(FakeRunner())


def test_litter_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (proof,) = [proof for proof in proofs.collect("s1", ["course"]) if proof.name == "no stray files"]
    proof.run(FakeRunner())
    litter = proofs.SETS["cheats"] / "notes.txt"
    monkeypatch.setitem(proofs.SETS, "cheats", tmp_path)
    (tmp_path / litter.name).write_text("x")
    with pytest.raises(Unproven, match=r"notes\.txt: not a cheats sample"):
        proof.run(FakeRunner())


def test_a_stage_filter_keeps_only_that_stage() -> None:
    assert {proof.stage for proof in proofs.collect("s2", ["skeletons", "solutions"])} == {"s2"}
