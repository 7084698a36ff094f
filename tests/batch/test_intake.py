"""Is every submission found, under its student, in whatever a teacher downloads; and is nothing hostile unpacked?"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.batch import archive, intake
from grader.batch.intake import Entry
from grader.reading.submission import Unreadable

Zip = Callable[..., Path]


@pytest.fixture
def pack(tmp_path: Path) -> Zip:
    """``pack({"a.py": b"x = 1"}, name="class.zip")``"""

    def make(files: dict[str, bytes], name: str = "class.zip") -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for member, data in files.items():
                file.writestr(member, data)
        return path

    return make


def found(entries: list[Entry], base: Path) -> dict[str, str]:
    """Path within ``base`` -> student, of those without a problem."""
    return {str(entry.path.relative_to(base)): entry.student for entry in entries if entry.problem is None}


def problems(entries: list[Entry], base: Path) -> dict[str, str]:
    return {str(entry.path.relative_to(base)): entry.problem.en for entry in entries if entry.problem is not None}


def refused(entry: Entry) -> str:
    job = entry.job()
    assert job.problem is not None
    return job.problem.en


CANVAS = {
    "wangwei_101_2001_hw.ipynb": "wangwei_101",
    "wangwei_102_2002_hw-1.ipynb": "wangwei_102",  # another of that name; Canvas counts his resubmission
    "李雷_LATE_103_2003_my work (final).py": "李雷_103",
}
MOODLE = {
    "Ann Lee_11_assignsubmission_file_/hw 1.ipynb": "Ann Lee_11",
    "王 伟_12_assignsubmission_file/s2.py": "王 伟_12",
    "O'Neil_13_assignsubmission_file_sub.py": "O'Neil_13",
}


@pytest.mark.parametrize("names", [CANVAS, MOODLE], ids=["canvas", "moodle"])
def test_downloads_name_their_students(names: dict[str, str], pack: Zip, tmp_path: Path) -> None:
    data = {name: f"x = {number}".encode() for number, name in enumerate(names)}
    path = pack(data)
    entries = intake.collect([path])
    assert found(entries, path) == names
    assert {entry.job().data for entry in entries} == set(data.values())
    with zipfile.ZipFile(path) as file:  # and so does the unpacked folder
        file.extractall(tmp_path / "unpacked")
    assert found(intake.collect([tmp_path / "unpacked"]), tmp_path / "unpacked") == names


def test_late_is_said(pack: Zip) -> None:
    notes = {entry.student: entry.notes for entry in intake.collect([pack(dict.fromkeys(CANVAS, b"x = 1"))])}
    assert [note.en for note in notes.pop("李雷_103")] == ["Canvas marks it as handed in late (LATE)."]
    assert set(notes.values()) == {()}


def test_a_student_without_an_answer_is_not_lost(pack: Zip) -> None:
    path = pack({
        "Ann Lee_11_assignsubmission_file_/hw.docx": b"...",
        "Bo Xu_12_assignsubmission_file_/hw.zip": b"PK",
        "Bo Xu_12_assignsubmission_file_/hw.ipynb": b"{}",
        "readme.txt": b"",
    })  # fmt: skip
    entries = intake.collect([path])
    assert list(found(entries, path).values()) == ["Bo Xu_12"]
    ((where, why),) = problems(entries, path).items()
    assert where == "Ann Lee_11_assignsubmission_file_/hw.docx"
    assert why.endswith("no .ipynb or .py file was handed in; hand in the file itself, not packed again.")


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "cp437"])
def test_names_without_their_encoding_are_read(encoding: str, pack: Zip) -> None:
    """An archive says whether a name is UTF-8; systems that do not say so use their own code."""
    who, file = ("Müller Ñandú", "é.py") if encoding == "cp437" else ("王伟", "作业 一.py")
    name = f"{who}_5_assignsubmission_file_/{file}"
    raw = name.encode(encoding)
    plain = "n" * len(raw)
    path = pack({plain: b"x = 1"})
    path.write_bytes(path.read_bytes().replace(plain.encode(), raw))
    (entry,) = intake.collect([path])
    assert entry.student == f"{who}_5"
    assert entry.job().data == b"x = 1"
    assert intake.again(str(entry.path)) == b"x = 1"


@pytest.mark.parametrize("name", ["../up.py", "a/../../up.py", "/etc/up.py", "C:/up.py", "a\\..\\up.py"])
def test_a_name_that_leads_out_is_refused_and_the_others_are_graded(name: str, pack: Zip) -> None:
    path = pack({name: b"x = 1", "good.py": b"x = 1"})
    entries = intake.collect([path])
    assert list(found(entries, path).values()) == ["good"]
    (why,) = problems(entries, path).values()
    assert "its name leads out of the archive; it was not read" in why
    assert all(entry.path.is_relative_to(path) for entry in entries)


def test_links_are_refused(pack: Zip, tmp_path: Path) -> None:
    path = pack({"good.py": b"x = 1"})
    with zipfile.ZipFile(path, "a") as file:
        info = zipfile.ZipInfo("link.py")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")
    assert "a symbolic link; hand in the file itself" in problems(intake.collect([path]), path)["link.py"]
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "out.py").symlink_to(path)
    (folder / "in.py").write_text("x = 1")
    (folder / "same.py").symlink_to(folder / "in.py")
    entries = intake.collect([folder])
    assert set(found(entries, folder)) == {"in.py", "same.py"}
    assert "a symbolic link out of its own folder" in problems(entries, folder)["out.py"]


def test_bombs_are_not_unpacked(pack: Zip, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack({"bomb.py": b"#" * (8 << 20), "good.py": b"x = 1"})
    entries = intake.collect([path])
    assert list(found(entries, path)) == ["good.py"]
    assert "looks like a zip bomb" in problems(entries, path)["bomb.py"]
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    (entry,) = intake.collect([path])
    assert "looks like a zip bomb (more than 1 files or 2 GB unpacked); it was not opened." in refused(entry)


def test_a_bomb_that_lies_about_its_size_is_read_no_further_than_that(pack: Zip) -> None:
    size = 9 << 20
    path = pack({"bomb.py": b"#" * size})
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", size), struct.pack("<L", 1000)))
    (entry,) = intake.collect([path])
    assert entry.problem is None
    assert "is damaged in the archive" in refused(entry)


def test_what_cannot_be_opened_is_said(pack: Zip, tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"hello")
    (entry,) = intake.collect([tmp_path / "no.zip"])
    assert "no.zip: cannot be opened as a zip (File is not a zip file); download it again." in refused(entry)
    (entry,) = intake.collect([tmp_path / "none.zip"])
    assert "none.zip: no such file; check the path." in refused(entry)
    (entry,) = intake.collect([pack({"a.txt": b""}, "bare.zip")])
    assert "bare.zip: a zip without any .ipynb or .py file." in refused(entry)
    locked = pack({"a.py": b"x = 1"}, "locked.zip")
    data = bytearray(locked.read_bytes())
    data[6] |= 1  # the flag of encryption, in the member and in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    locked.write_bytes(data)
    (entry,) = intake.collect([locked])
    assert "a.py: needs a password; hand it in unencrypted." in refused(entry)


def test_every_byte_may_be_damaged(pack: Zip) -> None:
    """Whatever is wrong with an archive, it is said in one line."""
    path = pack({"good.py": b"x = 1\n" * 50, "Ann_1_assignsubmission_file_/b.py": b"y = 2\n" * 50})
    data = path.read_bytes()
    refusals = 0
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        for entry in intake.collect([path]):
            problem = entry.job().problem
            refusals += problem is not None
            assert problem is None or "\n" not in problem.en
    assert refusals > 100


def test_nbgraders_tree_and_course(tmp_path: Path) -> None:
    for student in ("ann", "王 伟"):
        folder = tmp_path / "submitted" / student / "ps1"
        folder.mkdir(parents=True)
        (folder / "s1.ipynb").write_text("{}")
        (folder / "timestamp.txt").write_text("2026")
        (folder / ".ipynb_checkpoints").mkdir()
        (folder / ".ipynb_checkpoints" / "s1-checkpoint.ipynb").write_text("{}")
    (tmp_path / "submitted" / "zoe" / "ps1").mkdir(parents=True)
    (tmp_path / "submitted" / "zoe" / "ps1" / "essay.pdf").write_text("")
    expected = {"ann/ps1/s1.ipynb": "ann", "王 伟/ps1/s1.ipynb": "王 伟"}
    entries = intake.collect([tmp_path / "submitted"])
    assert found(entries, tmp_path / "submitted") == expected
    assert [entry.student for entry in entries if entry.problem] == ["zoe"]
    (tmp_path / "nbgrader_config.py").write_text("")
    (tmp_path / "source" / "ps1").mkdir(parents=True)
    (tmp_path / "source" / "ps1" / "s1.ipynb").write_text("{}")
    assert found(intake.collect([tmp_path]), tmp_path / "submitted") == expected


def test_a_file_is_found_again_by_the_path_in_a_document(pack: Zip, tmp_path: Path) -> None:
    path = pack({"deep/a.py": b"x = 1"})
    (entry,) = intake.collect([path])
    assert intake.again(str(entry.path)) == b"x = 1"
    (tmp_path / "b.py").write_bytes(b"y = 2")
    assert intake.again(str(tmp_path / "b.py")) == b"y = 2"
    with pytest.raises(Unreadable, match="no such file"):
        intake.again(str(path / "deep" / "c.py"))


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("submitted/alice/s1/submitted/bob/x.py", "alice"),
        ("Alice_99_assignsubmission_file_/submitted/bob/x.py", "Alice_99"),
        ("Alice_99_assignsubmission_file_/Bob_123_assignsubmission_file_x.py", "Alice_99"),
        ("Alice_99_assignsubmission_file_Bob_123_assignsubmission_file_x.py", "Alice_99"),
    ],
)
def test_nobody_hands_in_under_the_name_of_another(tmp_path: Path, name: str, owner: str) -> None:
    file = tmp_path / "class" / name
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n")
    assert [entry.student for entry in intake.collect([tmp_path / "class"])] == [owner]
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr(name, "x = 1\n")
    assert [entry.student for entry in intake.collect([tmp_path / "class.zip"])] == [owner]


def test_a_link_to_what_another_handed_in_is_refused(tmp_path: Path) -> None:
    alice, bob = (tmp_path / "submitted" / name / "s1" for name in ("alice", "bob"))
    alice.mkdir(parents=True)
    bob.mkdir(parents=True)
    (alice / "a.py").write_text("x = 1\n")
    (bob / "a.py").symlink_to(Path("..", "..", "alice", "s1", "a.py"))
    (bob / "b.py").symlink_to("c.py")
    (bob / "c.py").write_text("y = 1\n")
    entries = {entry.path.relative_to(tmp_path / "submitted").as_posix(): entry for entry in intake.collect([tmp_path])}
    assert {name for name, entry in entries.items() if entry.problem} == {"bob/s1/a.py"}


def test_a_learners_own_zip_is_a_folder(pack: Zip, tmp_path: Path) -> None:
    """A stage that asks for files beside the notebook is handed in packed, where a platform takes one file."""
    pack({"s4/s4.py": b"x = 1", "s4/notes.txt": b"", "__MACOSX/s4/s4.py": b""}, "alice.zip")
    pack({"s4.py": b"x = 2"}, "bao_17_4711_work.zip")
    pack({"nothing.txt": b""}, "chen.zip")
    (tmp_path / "dana.zip").write_bytes(b"PK")
    entries = intake.collect([tmp_path])
    assert found(entries, tmp_path) == {"alice.zip/s4/s4.py": "alice", "bao_17_4711_work.zip/s4.py": "bao_17"}
    assert "cannot be opened as a zip" in problems(entries, tmp_path)["dana.zip"]
    assert [entry.job().data for entry in entries if entry.problem is None] == [b"x = 1", b"x = 2"]
