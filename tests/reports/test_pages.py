"""Are the pages complete, true to the document, safe with hostile text, and silent about what is private?"""

from __future__ import annotations

import copy
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import SECRET, entry_of

from grader import paths
from grader.reading import submission
from grader.reports import class_page, learner, write_reports
from grader.reports.code import excerpt
from grader.reports.cohort import cohorts

pytestmark = pytest.mark.xdist_group("reports")  # one grading of the class serves them all

EVIL = "<script>alert(1)</script>\"'&{{ 7 * 7 }}"
VOID = {"meta", "input", "br", "link"}


class Reader(HTMLParser):
    """Text and attributes; fails on tags that are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data

    def values(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]


def all_pages(document: dict[str, Any]) -> list[str]:
    return [
        *(learner.page(document, entry) for entry in document["submissions"]),
        class_page.page(document, links=[f"x/{n}.html" for n in range(len(document["submissions"]))]),
    ]


def test_pages_are_whole_and_load_nothing(document: dict[str, Any]) -> None:
    for page in all_pages(document):
        reader = Reader(page)
        ids = reader.values("id")
        assert len(ids) == len(set(ids))
        loads = [tag for tag, attrs in reader.tags if tag in ("link", "img", "iframe", "object") or "src" in attrs]
        assert loads == []
        assert not re.search(r"@import|url\(", page)
        inside = [target[1:] for target in reader.values("href") if target.startswith("#")]
        assert set(inside) <= set(ids)


def test_a_page_says_what_where_and_what_next(document: dict[str, Any]) -> None:
    text = Reader(learner.page(document, entry_of(document, "ivan"))).text
    for said in ("用了库里的注意力", "Library attention is used", "line 47", "第 47 行", "Hint 3", "30 / 105"):
        assert said in text
    assert "FlashAttention-2" in text  # to read next
    assert "torch.nn.functional" in text  # the line itself


def test_the_failing_line_is_marked(document: dict[str, Any]) -> None:
    page = learner.page(document, entry_of(document, "ivan"))
    (marked,) = re.findall(r'<span class="row marked">.*?</span></span>', page)
    assert "<i>47</i>" in marked


def test_wrong_values_come_with_the_picture_and_the_code_of_the_exercise(document: dict[str, Any]) -> None:
    page = learner.page(document, entry_of(document, "chen"))
    assert "error by tile" in page
    assert "每块的误差" in page
    assert "6 of 6 tiles are beyond the tolerance" in page
    assert "flash_attention_forward</span><span" in page  # the definition, with its colours


def test_code_is_only_shown_while_the_file_is_what_was_graded(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = copy.deepcopy(entry_of(document, "chen"))
    monkeypatch.chdir(tmp_path)
    entry["path"] = "chen.py"
    source = (paths.EXAMPLES / "submissions" / "chen.py").read_bytes()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "chen.py").write_bytes(source)
    code = '<pre tabindex="0">'
    assert code not in learner.page(document, entry)
    assert code in learner.page(document, entry, folders=[folder])
    (folder / "chen.py").write_bytes(source + b"\n# changed")
    assert code not in learner.page(document, entry, folders=[folder])


def test_what_only_looks_like_a_line_is_none(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1  # \x0c\x0c\u2028\x0c\n1 / 0\n", encoding="utf-8")
    shown = excerpt(submission.read(file), "softmax", {"cell": None, "line": 2})
    assert shown is not None
    assert [(line.number, line.marked) for line in shown.lines] == [(1, False), (2, True)]
    assert excerpt(submission.read(file), "softmax", {"cell": None, "line": 3}) is None


def test_code_is_found_in_a_zip(document: dict[str, Any], tmp_path: Path) -> None:
    entry = copy.deepcopy(entry_of(document, "chen"))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(paths.EXAMPLES / "submissions" / "chen.py", "deep/chen.py")
    entry["path"] = str(tmp_path / "all.zip" / "deep" / "chen.py")
    assert '<pre tabindex="0">' in learner.page(document, entry)


def test_a_notebook_names_the_cell(document: dict[str, Any]) -> None:
    entry = copy.deepcopy(entry_of(document, "bao"))
    exercise = next(row for row in entry["exercises"] if row["id"] == "s2-forward")
    exercise["checks"][0].update(
        status="error", earned=0, where={"cell": 8, "line": 3}, message={"zh": "错", "en": "no"}
    )
    page = learner.page(document, entry)
    assert "Where it fails: " in page
    assert "cell 8, line 3" in page
    assert re.search(r'class="row marked"><i>3</i>', page)


def test_what_a_hidden_check_tries_is_on_no_learners_page(document: dict[str, Any]) -> None:
    for entry in document["submissions"]:
        page = learner.page(document, entry)
        assert SECRET not in page
        assert "12.25" not in page
    page = learner.page(document, entry_of(document, "fumi"))
    assert "A hidden check of short tiles at the end failed" in page
    assert "The short tile at the end is dropped" not in page  # which idea it is would tell what it tries
    assert "worth up to 5 points" in page


def test_a_passed_hidden_check_is_counted_without_its_name(document: dict[str, Any]) -> None:
    page = learner.page(document, entry_of(document, "ada"))
    assert "105 / 105" in Reader(page).text
    assert SECRET not in page
    assert "5/5" in page
    assert "Every check passes" in page


def test_an_unreadable_submission_says_why(document: dict[str, Any]) -> None:
    page = learner.page(document, entry_of(document, "赵 六"))
    assert "还没有成绩" in page
    assert "not a Jupyter notebook" in page
    assert '<p class="score">' not in page


def test_hostile_text_stays_text(document: dict[str, Any]) -> None:
    entry = entry_of(document, "chen")
    entry["student"] = EVIL
    entry["path"] = f"{EVIL}.py"
    entry["repairs"] = [{"zh": EVIL, "en": EVIL}]
    failing = next(check for row in entry["exercises"] for check in row["checks"] if check["status"] == "failed")
    failing["message"] = {"zh": EVIL, "en": EVIL}
    failing["evidence"]["case"] = failing["evidence"]["expected"] = EVIL
    for page in all_pages(document):
        reader = Reader(page)
        assert sum(tag == "script" for tag, _ in reader.tags) == 1
        assert "alert(1)</script>" not in page
    assert EVIL in Reader(learner.page(document, entry)).text


def test_the_notice_is_on_every_page(document: dict[str, Any]) -> None:
    document["notice"] = {"zh": "没有完全隔离。", "en": "Not fully confined."}
    for page in all_pages(document):
        assert "没有完全隔离。" in page
        assert "Not fully confined." in page


def test_the_class_page_counts_what_the_document_says(document: dict[str, Any]) -> None:
    (cohort,) = cohorts(document)
    assert cohort.learners[0].entry["student"] == "ada"
    assert len(cohort.learners) == 8
    assert sum(cohort.bins) == 8
    assert cohort.full == 1  # with the private check, ada alone
    mistakes = {mistake.id: [one.entry["student"] for one in mistake.learners] for mistake in cohort.mistakes}
    assert mistakes["acc-not-rescaled"] == ["dana"]
    assert mistakes["gqa-interleaved"] == ["fumi"]
    assert "gqa-mapping" not in mistakes  # it shows in s2-function, through s2-forward alone
    assert mistakes["forbidden-library_attention"] == ["ivan"]
    cells = {learner.entry["student"]: learner.cells for learner in cohort.learners}
    assert cells["ada"]["gqa"].state == "ok"
    assert (cells["fumi"]["gqa"].state, cells["fumi"]["gqa"].passed) == ("part", 1)
    assert cells["dana"]["module"].state == "open"  # it fails because of s2-update
    assert cells["ivan"]["online-rescaling"].state == "open"  # what was refused unrun is no sign of not knowing
    assert cohort.concepts[0].title.en == "short tiles at the end"  # the private check's concept, missed by most
    assert dict(cohort.unwritten)["s2-backward"] == 1
    hardest = cohort.hardest[0]
    assert (hardest.id, hardest.passed, hardest.failed) == (f"s2-forward.{SECRET}", 1, 7)


def test_the_class_page_shows_everybody_and_who_needs_a_look(document: dict[str, Any]) -> None:
    entry_of(document, "fumi")["student"] = "chen"
    text = Reader(class_page.page(document)).text
    for entry in document["submissions"]:
        assert entry["student"] in text
    assert "more than one submission for this id" in text
    assert "not a Jupyter notebook" in text
    assert "jade" in text[text.index("Time spent grading") :]


def test_several_stages_are_told_apart(document: dict[str, Any]) -> None:
    other = copy.deepcopy(entry_of(document, "ada"))
    other["stage"] = "s1"
    other["exercises"] = []
    kept = copy.deepcopy(entry_of(document, "ada"))
    kept["stage"] = "s1"
    kept["exercises"] = kept["exercises"][:1]
    document["submissions"] += [other, kept]
    assert [cohort.stage.id for cohort in cohorts(document)] == ["s1", "s2"]
    Reader(class_page.page(document))


def test_an_empty_document_still_makes_a_page(document: dict[str, Any]) -> None:
    document["submissions"] = []
    Reader(class_page.page(document))


def test_every_submission_has_a_file_of_its_own(document: dict[str, Any], tmp_path: Path) -> None:
    names = ["a/b", "a b", "A_B", "..", "名字" * 60, "𠮷" * 80, "", "x", "con\n"]
    one = entry_of(document, "ada")
    document["submissions"] = [{**one, "student": name or "?"} for name in names]
    written = write_reports(document, tmp_path / "new" / "report")
    assert len({page.name.casefold() for page in written.pages}) == len(names)
    for page, name in zip(written.pages, names):
        assert page.parent == tmp_path / "new" / "report" / "submissions"
        assert (name or "?") in Reader(page.read_text("utf-8")).text
    assert written.class_page
    links = [target for target in Reader(written.class_page.read_text("utf-8")).values("href") if "/" in target]
    assert "submissions/A_B-s2-3.html" in links


def test_one_submission_is_no_class(document: dict[str, Any], tmp_path: Path) -> None:
    document["submissions"] = document["submissions"][:1]
    written = write_reports(document, tmp_path)
    assert written.class_page is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "scores.csv", "submissions"]
