"""Files beside a program: whose they are, what is left out, and that every way of grading sees the same."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from grader.artifact import Artifact, BadArtifact
from grader.batch import archive, intake
from grader.batch.cache import Cache
from grader.batch.plan import Job, Plan, Record
from grader.reading import artifacts, submission
from grader.vocabulary import CheckFailed, Context

NOTEBOOK = {"cells": [], "metadata": {"flashdojo": {"stage": "s4"}}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture(autouse=True)
def asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "declared", lambda: frozenset({"schedules.json", "profiles"}))
    monkeypatch.setattr(archive, "declared", lambda: frozenset({"schedules.json", "profiles"}))


def hand_in(folder: Path, program: str = "s4.ipynb", stage: str = "s4") -> Path:
    files = {
        program: json.dumps(NOTEBOOK | {"metadata": {"flashdojo": {"stage": stage}}}),
        "schedules.json": '{"block_q": 128}',
        "profiles/before/a.csv": "a\r\n",
        "profiles/.ipynb_checkpoints/a.csv": "old",
        "unasked.json": "{}",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder / program


TAKEN = {"schedules.json": b'{"block_q": 128}', "profiles/before/a.csv": b"a\r\n"}


def test_what_is_asked_for_is_read_as_it_is(tmp_path: Path) -> None:
    found = artifacts.beside(hand_in(tmp_path / "alice"))
    assert found.files == TAKEN
    assert found.notes == ()


def test_a_folder_named_as_the_program_comes_first(tmp_path: Path) -> None:
    hand_in(tmp_path)
    hand_in(tmp_path / "s4")
    (tmp_path / "s4" / "schedules.json").write_text("{}")
    assert artifacts.beside(tmp_path / "s4.ipynb").files == TAKEN | {"schedules.json": b"{}"}


def test_what_could_be_anybodys_is_nobodys(tmp_path: Path) -> None:
    mine = hand_in(tmp_path, "alice.ipynb")
    hand_in(tmp_path, "bao.ipynb")
    found = artifacts.beside(mine)
    assert not found.files
    assert "bao.ipynb" in found.notes[0].en
    assert set(found.refused) == {"schedules.json", "profiles"}
    assert artifacts.beside(mine, shared_folder=False).files == TAKEN


def test_a_duplicate_that_jupyter_made_is_no_rival(tmp_path: Path) -> None:
    mine = hand_in(tmp_path)
    hand_in(tmp_path, "s4-Copy1.ipynb")
    assert artifacts.beside(mine).files == artifacts.beside(tmp_path / "s4-Copy1.ipynb").files == TAKEN


def test_a_notebook_of_another_stage_is_no_rival(tmp_path: Path) -> None:
    mine = hand_in(tmp_path)
    hand_in(tmp_path, "s3.ipynb", "s3")
    assert artifacts.beside(mine).files == TAKEN


def test_links_lead_nowhere(tmp_path: Path) -> None:
    mine = hand_in(tmp_path / "alice")
    other = hand_in(tmp_path / "bao").parent
    (mine.parent / "schedules.json").unlink()
    (mine.parent / "schedules.json").symlink_to(other / "schedules.json")
    (mine.parent / "profiles" / "after").symlink_to(other / "profiles" / "before")
    os.mkfifo(mine.parent / "profiles" / "pipe")
    found = artifacts.beside(mine)
    assert found.files == {"profiles/before/a.csv": b"a\r\n"}
    assert len(found.notes) == 2


def test_an_end_to_how_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_BYTES", 10)
    found = artifacts.beside(hand_in(tmp_path))
    assert found.files == {"profiles/before/a.csv": b"a\r\n"}
    assert "schedules.json is too large" in found.refused["schedules.json"].en
    assert found.notes == (found.refused["schedules.json"],)
    context = Context(subject=None, check="s4-tune.overflow", files=found.files, refused=found.refused)  # type: ignore[arg-type]
    with pytest.raises(CheckFailed, match="too large"):
        context.artifact("schedules.json")


def packed(folder: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w") as file:
        for path in sorted(folder.rglob("*")):
            file.write(path, path.relative_to(folder.parent))
    return target


def test_a_zip_holds_the_same(tmp_path: Path) -> None:
    hand_in(tmp_path / "alice")
    file = packed(tmp_path / "alice", tmp_path / "class.zip")
    (job,) = [entry.job() for entry in intake.collect([file])]
    assert job.artifacts.files == TAKEN
    assert archive.artifacts(file, PurePosixPath("alice/s4.ipynb")).files == job.artifacts.files


def test_a_zip_with_rivals(tmp_path: Path) -> None:
    hand_in(tmp_path / "class", "alice.ipynb")
    hand_in(tmp_path / "class", "bao.ipynb")
    found = archive.artifacts(packed(tmp_path / "class", tmp_path / "a.zip"), PurePosixPath("class/alice.ipynb"))
    assert not found.files
    assert found.notes


def test_a_job_carries_them_and_the_cache_knows_them_apart(tmp_path: Path) -> None:
    (entry,) = intake.collect([hand_in(tmp_path / "alice")])
    job = entry.job()
    assert job.artifacts.files == TAKEN
    row = {
        "path": submission.shown(job.path), "student": job.student, "status": "graded", "message": None,
        "sha256": hashlib.sha256(job.data).hexdigest(), "artifacts": job.artifacts.digests(),
    }  # fmt: skip
    cache = Cache(tmp_path / "cache", Plan())
    cache.keep(job.path, Record(row))
    assert cache.find(job) is not None
    (tmp_path / "alice" / "schedules.json").write_text("{}")
    assert cache.find(entry.job()) is None


def test_a_digest_covers_names_and_contents() -> None:
    def digest(files: dict[str, bytes]) -> dict[str, str]:
        return artifacts.Artifacts(files).digests()

    assert digest({"profiles/a": b"xy"}) != digest({"profiles/ax": b"y"})
    assert digest({"profiles/a": b"x", "profiles/b": b""}) != digest({"profiles/a": b"", "profiles/b": b"x"})
    assert set(digest(TAKEN)) == {"schedules.json", "profiles"}


def test_a_check_sees_bytes_and_a_folder() -> None:
    schedule, profiles = (Artifact.among(TAKEN, name) for name in ("schedules.json", "profiles"))
    assert schedule is not None
    assert profiles is not None
    assert schedule.json() == {"block_q": 128}
    with profiles.folder() as folder:
        assert (folder / "before" / "a.csv").read_bytes() == b"a\r\n"
    assert not folder.exists()


@pytest.mark.parametrize("data", [b"\xff", b"{", b"[" * 100_000, b'{"us": NaN}', b'{"a": {"b": 1, "b": 2}}'])
def test_what_is_no_json_says_so(data: bytes) -> None:
    with pytest.raises(BadArtifact, match=r"schedules\.json: not"):
        Artifact("schedules.json", {"": data}).json()


def test_what_is_missing_fails_the_check() -> None:
    context = Context(subject=None, check="s4-tune.overflow", files={})  # type: ignore[arg-type]
    with pytest.raises(CheckFailed) as failed:
        context.artifact("schedules.json")
    assert failed.value.misconception == "artifact-missing"


def test_the_plan_may_name_a_job_without_any() -> None:
    assert Job(Path("a.py"), "a", b"x = 1\n").artifacts.digests() == {}
