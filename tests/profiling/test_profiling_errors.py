"""Whatever is wrong with a question or a profile: one line in the learner's language, exit code 2."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.checking.model_errors import FACTS_ZH, PROFILES_ZH, in_words
from grader.cli import main
from grader.profiling.words import caveat
from kernels.perf import CAVEATS, SCHEDULES, BadSchedule, Refused, Schedule, Shape, find_soc, predict
from kernels.profiles import PROBLEMS, BadProfile, kernel_run, write_pytorch
from kernels.profiles.find import OTHERS

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLASHDOJO_DEBUG", raising=False)


@pytest.fixture
def refuses(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Runs ``profile ...`` in both languages; returns the Chinese and the English line."""

    def run(*arguments: str) -> tuple[str, str]:
        lines = []
        for lang in ("zh", "en"):
            assert main(["profile", *arguments, "--lang", lang]) == 2
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.startswith("flashdojo: ")
            assert said.err.count("\n") == 1
            assert len(said.err) < 1000
            lines.append(said.err.strip())
        assert HAN.search(lines[0])
        assert not HAN.search(lines[1])
        return lines[0], lines[1]

    return run


@pytest.mark.parametrize(
    ("arguments", "chinese", "english"),
    [
        (["--soc", "910B"], "没有 910B 这个芯片", "no SoC 910B"),
        (["--soc", "H100"], "常用简称", "Short names"),
        (["--shape", "1,2,3"], "请写六个数", "write six numbers"),
        (["--shape", "1,16,16,4096,4096,x"], "请写六个数", "write six numbers"),
        (["--shape", "1,16,3,4096,4096,128"], "N1 必须是 N2 的整数倍", "N1 must be a multiple of N2"),
        (["--shape", "1,16,16,4096,4096,96"], "算子只支持 64", "the operator takes 64"),
        (["--shape", "0,16,16,4096,4096,128"], "不小于 1", "at least 1"),
        (["--shape", "65536,1,1,128,128,128"], "小于 65,536", "less than 65,536"),
        (["--shape", "1,1,1,99999999,128,128"], "算子最多支持", "the operator takes up to"),
        (["--dtype", "fp32"], "只支持 float16", "the operator takes float16"),
        (["--mask", "window"], "模型只算 none", "the model covers none"),
        (["--schedule", "v8-unfuse"], "你要的是不是 v8-unfused", "Did you mean v8-unfused"),
        (["--schedule", "nothing.json"], "没有名为", "no schedule and no file"),
        (["--schedule", "x" * 5000], "没有名为", "no schedule and no file"),
        (["--soc", "9" * 5000 + "\n"], "这个芯片", "no SoC 9999"),
        (["--shape", "1," * 5000], "请写六个数", "write six numbers"),
        (["--schedule", "key.json"], "没有这一项", "no such field"),
        (["--schedule", "keys.json:x"], "没有 x 这一项", "no entry x"),
        (["--schedule", "deep.json"], "能够读取的 JSON", "no JSON that can be read"),
        (["--schedule", "deep.json:x"], "能够读取的 JSON", "no JSON that can be read"),
        (["--schedule", "broken.json:x"], "能够读取的 JSON", "no JSON that can be read"),
        (["--schedule", "broken.json"], "不是 JSON：第 1 行", "no JSON"),
        (["--schedule", "list.json"], "是一个 JSON 对象", "is a JSON object"),
        (["--schedule", "latin.json"], "不是 UTF-8 文本", "not UTF-8 text"),
        (["--schedule", "large.json"], "太大", "too large"),
        (["--schedule", "typo.json"], "你要的是不是 block_q", "did you mean block_q"),
        (["--schedule", "text.json"], "不是整数", "no whole number"),
        (["--schedule", "far.json"], "超出范围", "outside"),
        (["--schedule", "odd.json"], "16 的倍数", "no multiple of 16"),
        (["--schedule", "path.json"], "可选", "none of"),
        (["--schedule", "both.json"], "preload 必须是 0", "preload must be 0"),
        (["--schedule", "flag.json"], "不是 true 或 false", "neither true nor false"),
        (["--schedule", "list.json:tiles"], "没有 tiles 这一项", "no entry tiles"),
        (["--schedule", "fits.json:nothing"], "有的是：block_q", "there are: block_q"),
        (["--schedule", "big.json"], "UB 溢出", "UB overflows"),
        (["--schedule", "dead.json"], "死锁", "deadlock"),
        (["--soc", "910B3", "--schedule", "v8"], "没有从 L0C 到 UB 的通路", "no wire from L0C to UB"),
        (["--schedule", "cann"], "没有实测", "was never measured"),
    ],
)
def test_questions(refuses: Callable[..., tuple[str, str]], arguments: list[str], chinese: str, english: str) -> None:
    files = {
        "broken.json": "{",
        "key.json": json.dumps({"k" * 5000: 1}),
        "keys.json": json.dumps({f"k{n:050d}": 1 for n in range(500)}),
        "deep.json": "[" * 90_000,
        "list.json": "[1]",
        "large.json": " " * 200_000,
        "typo.json": '{"blok_q": 1}',
        "text.json": '{"block_q": "128"}',
        "far.json": '{"preload": 99}',
        "odd.json": '{"block_q": 100}',
        "path.json": '{"s_path": "wire"}',
        "both.json": '{"group": 2}',
        "flag.json": '{"barrier": 1}',
        "fits.json": '{"block_q": 64}',
        "big.json": '{"block_kv": 512}',
        "dead.json": '{"preload": 3, "s_slots": 1, "p_slots": 1}',
    }
    for name, content in files.items():
        Path(name).write_text(content)
    Path("latin.json").write_bytes('{"é": 1}'.encode("latin-1"))
    found = refuses("predict", *arguments)
    assert chinese in found[0]
    assert english in found[1]


@pytest.mark.parametrize("arguments", [["--soc", "H100"], ["--shape", "1"], ["--soc", "910B3", "--schedule", "v8"]])
def test_nothing_is_written_of_what_is_refused(refuses: Callable[..., tuple[str, str]], arguments: list[str]) -> None:
    assert refuses("write", *arguments) == refuses("predict", *arguments)
    assert ("none of 77 schedules fits" in refuses("sweep", *arguments)[1]) == ("--schedule" in arguments)
    assert not Path("profiles").exists()


def test_overflow_shows_the_sum_against_the_capacity() -> None:
    with pytest.raises(Refused) as refused:
        predict(find_soc("950PR"), Shape(1, 16, 16, 4096, 4096, 256), Schedule(s_slots=2, o_slots=2))
    said = in_words(refused.value)
    for text in said:
        assert "253,952" in text
        total = re.search(r"= ([\d,]+)", text)
        assert total is not None
        parts = re.findall(r"([\d,]+) [+=]", text.split("UB", 1)[1])
        assert sum(int(part.replace(",", "")) for part in parts) == int(total[1].replace(",", ""))


@pytest.mark.parametrize(
    ("arguments", "english"),
    [
        (["write", "--kind", "nsys"], "--kind takes pytorch, msprof"),
        (["write", "--header", "old"], "--header takes block-num, block-dim"),
        (["sweep", "--out", "picture.png"], "must end in .html"),
        (["report", "nowhere"], "no such file or folder"),
        (["report", "empty"], "the folder is empty"),
        (["report", "other"], "written by"),
        (["report", "notes"], "no profile of an Ascend NPU"),
        (["report", "half_ascend_pt"], "is missing"),
        (["report", "notes/notes.txt"], "no profile of an Ascend NPU"),
        (["report", "cut.csv"], "ends in the middle"),
        (["report", "header.csv"], "not one kernel"),
        (["report", "semicolons.csv"], "separated by"),
        (["report", "good.csv", "--before", "empty"], "the folder is empty"),
        (["report", "good.csv", "--soc", "H100"], "no SoC H100"),
        (["open", "nowhere"], "no such file or folder"),
    ],
)
def test_profiles(refuses: Callable[..., tuple[str, str]], arguments: list[str], english: str) -> None:
    for folder in ("empty", "other", "notes", "half_ascend_pt/ASCEND_PROFILER_OUTPUT"):
        Path(folder).mkdir(parents=True)
    Path("half_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json").write_text("[]")
    Path("other/run.nsys-rep").write_bytes(b"\x00")
    Path("notes/notes.txt").write_text("hello")
    Path("good.csv").write_text("Name,Type,Duration(us)\na,Add,1.0\n")
    Path("cut.csv").write_text("Name,Type,Duration(us)\na,Add,1.0\nb,Ad")
    Path("header.csv").write_text("Name,Type,Duration(us)\n")
    Path("semicolons.csv").write_text("Name;Type;Duration(us)\n")
    before = sorted(Path().rglob("*"))
    assert english in refuses(*arguments)[1]
    assert sorted(Path().rglob("*")) == before


def test_a_huge_profile(refuses: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.profiles import reading

    monkeypatch.setattr(reading.read, "__kwdefaults__", {"max_kernels": 3})
    Path("many.csv").write_text("Name,Type,Duration(us)\n" + "a,Add,1.0\n" * 4)
    assert "more than 3 kernels" in refuses("report", "many.csv")[1]


def test_a_page_that_has_no_place(refuses: Callable[..., tuple[str, str]]) -> None:
    Path("good.csv").write_text("Name,Type,Duration(us)\na,Add,1.0\n")
    Path("there").mkdir()
    assert "there" in refuses("report", "good.csv", "--out", "there")[1]


def test_every_problem_of_the_reader_has_its_chinese() -> None:
    assert set(PROFILES_ZH) == set(PROBLEMS)
    for name, sentence in PROBLEMS.items():
        fields = set(re.findall(r"{(\w+)", sentence))
        assert set(re.findall(r"{(\w+)", PROFILES_ZH[name])) == fields, name
        said = in_words(BadProfile(name, "here", **dict.fromkeys(fields, "it")))
        assert said.zh.startswith("here：")
        assert said.zh.endswith(("。", "？"))
    for _, tool, instead in OTHERS:
        said = in_words(BadProfile("other-tool", "here", tool=tool, instead=instead))
        assert any(re.fullmatch(pattern, instead) for pattern, _ in FACTS_ZH)
        assert instead not in said.zh


def test_every_caveat_has_its_chinese() -> None:
    for name in CAVEATS:
        assert HAN.search(caveat(name).zh), name


def test_nothing_the_model_says_of_a_schedule_stays_english() -> None:
    for data in ([], {"nonsense": 1}, {"block_q": 1.5}, {"block_q": 8}, {"split": "x"}, {"shared_so": 0}, "{"):
        with pytest.raises(BadSchedule) as error:
            Schedule.from_json(json.dumps(data) if isinstance(data, list | dict) else data)
        assert HAN.search(in_words(error.value).zh), data


def test_an_existing_profile_is_left_as_it_is(refuses: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096)
    made = write_pytorch("here", [kernel_run(predict(soc, shape, SCHEDULES["v8"]), shape, soc)])
    (made / "mine.txt").write_text("mine")
    assert "left as it is" in refuses("write", "--out", "here")[1].replace("was left", "left")
    assert (made / "mine.txt").read_text() == "mine"
