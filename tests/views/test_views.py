"""The answer on a page and in a terminal: complete, in both languages, safe with hostile text, legible when narrow."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from grader.course import catalog
from grader.text import Text, listed, say
from grader.views import content, html, progress, terminal

EVIL = "<script>alert(1)</script> & [red]not markup[/red] \"'"


def check(name: str, status: str, points: float, **more: Any) -> dict[str, Any]:
    row = {
        "id": f"s2-forward.{name}",
        "concept": "forward",
        "visibility": "public",
        "status": status,
        "points": points,
        "earned": points if status == "passed" else 0.0,
        "message": {"zh": f"中文 {name}", "en": f"English {name}"},
        "misconception": None,
        "evidence": {},
        "where": None,
        "seconds": 0.01,
    }
    return row | more


@pytest.fixture
def submission() -> dict[str, Any]:
    tiles = {"block_q": 16, "block_kv": 8, "errors": [[1e-7, 1e-7], [0.5, "nan"], [None, 3e-5]]}
    evidence = {
        "max_error": 1.7,
        "tolerance": 2e-6,
        "index": [0, 1, 61, 3],
        "expected": 0.3,
        "got": EVIL,
        "case": "B=1 S1=61",
        "tile_errors": tiles,
    }
    checks = [
        check("values", "passed", 6),
        check("tails", "failed", 4.5, evidence=evidence, misconception="not-implemented"),
        check("gqa", "error", 4, message={"zh": EVIL, "en": EVIL}, where={"cell": 12, "line": 7}),
        check("half", "blocked", 4, message={"zh": "要先通过 s2-forward.tails。", "en": "waits for s2-forward.tails."}),
    ]
    exercise = {"id": "s2-forward", "score": 6.0, "max_score": 18.5, "checks": checks}
    return {
        "path": "x.py",
        "student": EVIL,
        "stage": "s2",
        "sha256": None,
        "status": "graded",
        "score": 6.0,
        "max_score": 18.5,
        "seconds": 0.1,
        "message": None,
        "repairs": [],
        "exercises": [exercise],
    }


class Reader(HTMLParser):
    """Tags and text; fails on tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def screen(width: int, **more: Any) -> Console:
    return Console(file=io.StringIO(), width=width, highlight=False, **more)


def printed(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_page_says_everything_and_escapes_what_the_learner_said(submission: dict[str, Any]) -> None:
    page = read(html.render(submission, lang="en"))
    assert "script" not in page.tags
    assert EVIL in page.text
    for said in ("English tails", "6 / 18.5 points", "1.7", "2e-06", "[0, 1, 61, 3]", "B=1 S1=61", "In [12], line 7"):
        assert said in page.text, said
    stage = catalog.load(strict=False, checks=False).stage("s2")
    assert stage.misconceptions["not-implemented"].title.en in page.text
    for hint in stage.exercise("s2-forward").hints:
        assert hint.en in page.text


def test_the_page_carries_both_languages_the_chosen_one_first(submission: dict[str, Any]) -> None:
    for lang, first, second in (("zh", "中文 tails", "English tails"), ("en", "English tails", "中文 tails")):
        text = read(html.render(submission, lang=lang)).text
        assert 0 <= text.index(first) < text.index(second)


def test_the_hint_ladder_hides_each_level_in_the_one_before(submission: dict[str, Any]) -> None:
    page = html.render(submission, lang="en")
    first, second, third = (page.index(f"<summary>Hint {level}</summary>") for level in (1, 2, 3))
    assert first < second < third
    assert "</details>" not in page[first:third]


def test_an_exercise_that_passed_shows_no_hints(submission: dict[str, Any]) -> None:
    submission["exercises"][0]["checks"] = [check("values", "passed", 6)]
    text = read(html.render(submission, lang="en")).text
    assert "Hint" not in text
    assert "All checks passed" in text


def test_the_picture_is_valid_svg_with_a_square_per_tile(submission: dict[str, Any]) -> None:
    tiles = submission["exercises"][0]["checks"][1]["evidence"]["tile_errors"]
    picture = ElementTree.fromstring(html.tile_picture(tiles, 2e-6, "zh"))
    squares = picture.findall("rect")
    assert len(squares) == 6
    colours = [square.get("fill") for square in squares]
    assert colours[0] == colours[1] != colours[2]
    assert len(set(colours)) == 5  # within, far off, not finite, not computed, a little off


def test_no_picture_of_nothing_or_of_far_too_many_tiles() -> None:
    assert html.tile_picture({"errors": []}, 1e-6, "en") == ""
    assert html.tile_picture({"errors": [[0.0] * 100] * 100}, 1e-6, "en") == ""


@pytest.mark.parametrize("width", [40, 60, 120])
def test_the_terminal_says_the_same_within_its_width(submission: dict[str, Any], width: int) -> None:
    out = screen(width)
    terminal.show_submission(out, submission, lang="zh")
    text = printed(out)
    assert all(cell_len(line) <= width for line in text.splitlines())
    flat = re.sub(r"\s", "", text)
    for said in ("中文 tails", "[0, 1, 61, 3]", "1.7  (≤ 2e-06)", EVIL, "6/18.5"):
        assert re.sub(r"\s", "", said) in flat, said
    assert "\x1b" not in text


def test_colour_only_for_people(submission: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = screen(80, force_terminal=True, color_system="standard")
    terminal.show_submission(coloured, submission, lang="en")
    assert "\x1b[3" in printed(coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = screen(80, force_terminal=True, color_system="standard")
    terminal.show_submission(plain, submission, lang="en")
    assert "\x1b[3" not in printed(plain)


def test_the_class_table_names_the_ideas_and_the_unreadable(submission: dict[str, Any]) -> None:
    message = {"zh": "没有这个文件", "en": "no such file"}
    submission["student"] = "ada"
    lost = submission | {"student": "bob", "status": "unreadable", "message": message, "exercises": [], "score": 0.0}
    for width in (50, 120):
        out = screen(width)
        terminal.show_batch(out, [submission, lost], lang="en")
        text = printed(out)
        assert all(cell_len(line) <= width for line in text.splitlines())
        assert "notwritten:forward" in re.sub(r"\s", "", text)
        assert "unreadable" in text
        assert "bob" in text


@pytest.mark.parametrize(
    ("error", "sign"),
    [(None, " "), (0.0, "."), (1e-6, "."), (1.1e-6, "1"), (5e-5, "2"), (1e30, "9"), ("nan", "#"), ("inf", "#")],
)
def test_tiles_as_characters(error: Any, sign: str) -> None:
    assert terminal.tile_sign(error, 1e-6) == sign


def test_ideas_are_listed_once(submission: dict[str, Any]) -> None:
    submission["exercises"][0]["checks"].append(check("more", "failed", 1, misconception="not-implemented"))
    assert len(content.ideas(submission)) == 1


def test_what_is_said_of_every_check_is_shown_once(submission: dict[str, Any]) -> None:
    same = {"message": {"zh": "不许", "en": "not allowed"}}
    submission["exercises"][0]["checks"] = [check(name, "failed", 1, **same) for name in ("a", "b", "c")]
    assert read(html.render(submission, lang="en")).text.count("not allowed") == 1
    out = screen(80)
    terminal.show_submission(out, submission, lang="en")
    assert printed(out).count("not allowed") == 1
    assert printed(out).count("0/1") == 3


def seen(submission: dict[str, Any], lang: str = "en") -> str:
    out = screen(200)
    terminal.show_submission(out, submission, lang=lang)
    return printed(out)


@pytest.mark.parametrize(
    ("evidence", "message", "misconception", "rows"),
    [
        # numbers that the message has told, rounded as it likes
        (
            {"max_error": 2.942, "tolerance": 1.544e-05, "index": [0, 17], "expected": 0.75308, "got": -2.18921},
            "the largest error is 2.9 (tolerance 2e-05), at [0, 17]: expected 0.75308, got -2.1892.",
            None,
            [],
        ),
        ({"max_error": 2.942, "tolerance": 1.5e-05}, "up to 2.9.", None, ["tolerance: 1.5e-05"]),
        ({"max_error": "0.25", "tolerance": 1.5e-05}, "wrong", None, ["largest error: 0.25  (≤ 1.5e-05)"]),
        ({"max_error": "inf"}, "wrong", None, ["largest error: inf"]),
        ({"max_error": "inf", "got": "nan"}, "the largest error is inf: got nan", None, []),
        # whole numbers
        ({"expected": 132599740, "got": 132488174.0}, "must be 132,599,740, it is 132,488,174.", None, []),
        ({"expected": 132599740, "got": 5.0}, "wrong", None, ["expected: 132,599,740", "got: 5"]),
        ({"expected": 0.5, "got": 1.0}, "at [1, 2]", None, ["expected: 0.5", "got: 1"]),
        # sizes are no errors
        (
            {"max_error": 21233664, "tolerance": 17_500_000},
            "took too much",
            "quadratic-memory",
            ["memory: 21.23 MB  (≤ 17.5 MB)"],
        ),
        ({"max_error": 16777216, "tolerance": 8_000_000}, "took 17 MB", "tiles-quadratic", ["limit: 8 MB"]),
        ({"max_error": 21233664, "tolerance": 17_500_000}, "21 MB (limit 18 MB)", "too-much-memory", []),
        (
            {"max_error": 2359296, "tolerance": 480.0, "shape": [1, 1536, 1536]},
            "An intermediate of shape [1, 1536, 1536] appeared.",
            "quadratic-memory",
            ["elements: 2,359,296  (≤ 480)"],
        ),
        # inputs
        ({"case": "seq_q=32, seq_kv=56"}, "seq_q=32, seq_kv=56: missing (0, 1).", None, []),
        ({"case": "{'batch': 7, 'seq_q': 13}"}, "it is 5 (for batch=7, seq_q=13).", None, []),
        ({"case": "B=1 S1=61"}, "wrong", None, ["inputs: B=1 S1=61"]),
        ({"expected": "float32", "got": "float16"}, "must be float32, it is float16.", None, []),
        ({"got": "float16 [2, 3]"}, "shape [2, 3] is wrong", None, ["got: float16 [2, 3]"]),
    ],
)
def test_each_fact_is_shown_once_as_what_it_is(
    submission: dict[str, Any], evidence: dict[str, Any], message: str, misconception: str | None, rows: list[str]
) -> None:
    line = check("a", "failed", 1, evidence=evidence, misconception=misconception)
    line["message"] = {"zh": message, "en": message}
    submission["exercises"][0]["checks"] = [line]
    text = seen(submission)
    assert [row.strip() for row in text[text.index(message) + len(message) :].splitlines() if row.strip()] == rows
    page = read(html.render(submission, lang="en")).text
    for row in rows:
        assert row.split(": ", 1)[1] in page


def test_checks_that_wait_take_one_line(submission: dict[str, Any]) -> None:
    waits = {"zh": "要先通过 s2-forward.tails。", "en": "waits for s2-forward.tails."}
    submission["exercises"][0]["checks"] += [check(name, "blocked", 1.5, message=waits) for name in ("window", "lse")]
    assert [line.strip() for line in seen(submission).splitlines() if "wait" in line] == [
        "· 3 more wait for tails (0/7 points)"
    ]
    assert "另有 3 项检查等待 tails 通过（0/7 分）" in seen(submission, "zh")
    page = read(html.render(submission, lang="en")).text
    assert page.count("3 more wait for tails") == 1


def test_checks_about_one_idea_are_told_apart(submission: dict[str, Any]) -> None:
    twins = [check(name, "passed", 1, concept="tail-tiles") for name in ("tails", "small")]
    submission["exercises"][0]["checks"] = [*twins, check("gqa", "passed", 1, concept="gqa")]
    page = read(html.render(submission, lang="en")).text
    title = catalog.load(strict=False, checks=False).stage("s2").concepts["tail-tiles"].en
    assert f"{title} tails" in page
    assert f"{title} small" in page
    assert "kv head gqa" not in page  # nothing to tell it from


def test_what_was_repaired_is_said_on_the_page_too(submission: dict[str, Any]) -> None:
    submission["repairs"] = [{"zh": "第 3 个单元相同", "en": "cell 3 repeats cell 2"}]
    assert "cell 3 repeats cell 2" in read(html.render(submission, lang="en")).text


def test_chinese_is_punctuated_as_chinese(submission: dict[str, Any]) -> None:
    text = seen(submission, "zh")
    assert "最大误差：1.7" in text
    assert "（第 12 个单元第 7 行）" in text


def test_an_exercise_that_was_not_begun_takes_one_line(submission: dict[str, Any]) -> None:
    begun = [check("a", "failed", 1, misconception="not-implemented"), check("b", "blocked", 1)]
    submission["exercises"][0]["checks"] = begun
    out = screen(80)
    terminal.show_submission(out, submission, lang="en")
    assert len([line for line in printed(out).splitlines() if line.strip()]) == 2


def test_a_line_turns_only_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    for person in (False, True):
        out = screen(80, force_terminal=person)
        monkeypatch.setattr(progress, "console", lambda _, out=out: out)
        with progress.waiting(say("检查", "checking mine.py")):
            pass
        assert ("mine.py" in printed(out) or "检查" in printed(out)) == person


def test_a_text_within_a_text_is_in_its_language() -> None:
    names = listed(["s1", "s2"])
    assert say("可选：{names}，{n}", "choose from {names}, {n}", names=names, n=2) == (
        "可选：s1、s2，2",
        "choose from s1, s2, 2",
    )


@pytest.mark.parametrize(
    ("first", "joined"),
    [("不对。", "不对。先改它。"), ("结果：", "结果：先改它。"), ("抛出 KeyError", "抛出 KeyError 先改它。")],
)
def test_chinese_sentences_are_joined_without_a_space(first: str, joined: str) -> None:
    assert Text(first, "Wrong.").plus(Text("先改它。", "Fix it.")) == (joined, "Wrong. Fix it.")
