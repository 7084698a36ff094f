"""write makes folders that the reader and the page understand; report and open make the page and say where it is."""

from __future__ import annotations

import json
import re
import webbrowser
from pathlib import Path

import pytest

from grader.cli import main
from grader.profiling.model_of import model_of
from grader.profiling.page import page
from kernels.perf import SCHEDULES, Shape, find_soc, predict
from kernels.profiles import Kernel, read, training_step


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")


def write(*options: str) -> Path:
    there = set(profiles())
    assert main(["profile", "write", *options]) == 0
    (made,) = set(profiles()) - there
    return made


def profiles() -> list[Path]:
    outside = (path for path in Path().rglob("*") if not re.search("_ascend_pt", str(path.parent)))
    return [path for path in outside if path.is_dir() and re.search(r"_ascend_pt$|^PROF_", path.name)]


@pytest.mark.parametrize("kind", ["pytorch", "msprof"])
@pytest.mark.parametrize("header", ["block-num", "block-dim"])
def test_what_is_written_is_what_the_model_said(kind: str, header: str) -> None:
    made = write("--schedule", "v4", "--mask", "causal", "--kind", kind, "--header", header)
    assert made.parent == Path("profiles/950PR_9589-v4")
    found = read(made)
    soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096, 128, "float16", 3)
    expected = predict(soc, shape, SCHEDULES["v4"])
    assert found.kind == kind
    assert found.header == header
    assert found.kernels[0].duration_us == pytest.approx(expected.microseconds, abs=1e-3)
    assert model_of(found.emulated) == expected


def test_a_training_step() -> None:
    found = read(write("--training-step", "--soc", "910B3"))
    assert {step.step for step in found.steps} == {0, 1, 2}
    assert {"MatMulV3", "FlashAttentionScore", "FlashAttentionScoreGrad"} <= {kernel.type for kernel in found.kernels}
    assert model_of(found.emulated) is None  # one schedule does not make the profile
    text = page(found)
    assert "training steps on 910B3" in text
    assert "训练步" in text


@pytest.mark.parametrize("soc", ["910B3", "950PR"])
def test_a_training_step_is_the_one_that_the_library_makes(soc: str) -> None:
    def rows(kernels: list[Kernel]) -> list[tuple[str, object]]:
        return [(kernel.type, pytest.approx(kernel.duration_us, abs=2e-3)) for kernel in kernels]

    assert rows(read(write("--training-step", "--soc", soc)).kernels) == rows(training_step(find_soc(soc), steps=3))


def test_a_statement_that_was_edited_is_no_prediction() -> None:
    made = write()
    statement = dict(read(made).emulated or {})
    for change in (
        {"soc": 5},
        {"shape": [1]},
        {"shape": {"batch": -1}},
        {"schedule": {"block_q": 4096}},
        {"soc": "H100"},
    ):
        assert model_of({**statement, **change}) is None
    assert model_of(None) is None
    assert model_of({}) is None


def test_the_page_says_the_numbers_in_both_languages() -> None:
    made = write("--schedule", "v8")
    assert main(["profile", "report", str(made)]) == 0
    text = made.with_name(made.name + ".html").read_text("utf-8")
    soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096)
    expected = predict(soc, shape, SCHEDULES["v8"])
    for words in (
        "v8 on 950PR_9589",
        "950PR_9589 上的 v8",
        f"{expected.microseconds:.1f} <small>",
        f"{expected.tflops:.1f} <small>",
        f"{100 * expected.mfu:.1f} <small>",
        "bound by aiv_vec_ratio, with the Cube nearly as full",
        "Cube 也几乎满了",
        "aic_mte2_ratio",
        "predicted by the performance model",
        "性能模型的预测",
    ):
        assert words in text, words
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    assert set(figures) == {"units", "buffers", "timeline", "core", "roofline"}
    assert all(f'id="figure-{name}"' in text for name in figures)
    buffers = figures["buffers"]["en"]["data"][0]
    assert buffers["y"] == ["L1", "L0A", "L0B", "L0C", "UB"]
    assert buffers["x"][0] == 100 * expected.buffers["L1"].used / expected.buffers["L1"].capacity
    units = figures["units"]["zh"]["data"][0]
    cube = expected.busy["CUBE"] * expected.core_microseconds / expected.microseconds
    assert dict(zip(units["y"], units["x"]))["Cube"] == pytest.approx(100 * cube, abs=0.1)
    assert "载入 K" in {trace["name"] for trace in figures["core"]["zh"]["data"]}
    assert "load K" in {trace["name"] for trace in figures["core"]["en"]["data"]}


def test_the_page_asks_no_address_for_anything() -> None:
    made = write()
    text = page(read(made))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "http" not in policy[1]
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.S)  # plotly's script names addresses in its notices
    assert not re.search(r"""(?:src|href)=(?!"#)""", own)
    assert "url(" not in own


def test_before_and_after() -> None:
    before = write("--schedule", "v4", "--out", "one")
    after = write("--schedule", "v8", "--out", "two")
    assert main(["profile", "report", str(after), "--before", str(before), "--out", "page.html"]) == 0
    text = Path("page.html").read_text("utf-8")
    ratio = read(before).duration_us / read(after).duration_us
    assert f"{100 * (ratio - 1):+.1f} <small>" in text
    assert f"{ratio:.2f}×" in text
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    assert [trace["name"] for trace in figures["units"]["en"]["data"]] == ["before", "after"]


def test_a_real_file_without_a_chip_and_with_one() -> None:
    Path("kernel_details.csv").write_text(
        "Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,Input Shapes,Input Data Types,"
        "Output Shapes,Output Data Types,aicore_time(us),aic_mac_ratio,aic_mte2_ratio,aic_fixpipe_ratio,"
        "aiv_time(us),aiv_vec_ratio\r\n"
        'a<b>,FlashAttentionScore,MIX_AIC,1700000000000000.000\t,407.1,20,"4096,2,512;4096,2,512;4096,2,512",'
        'DT_BF16;DT_BF16;DT_BF16,"4096,2,512",DT_BF16,361.1,0.357,0.468,0.584,360.7,0.634\r\n',
        encoding="utf-8-sig",
    )
    text = page(read("kernel_details.csv"))
    assert "not measured" not in text
    assert "Name the chip with --soc" in text
    assert "a<b>" not in text
    assert "they wait for each other" in text
    assert main(["profile", "report", "kernel_details.csv", "--soc", "910B3"]) == 0
    text = Path("kernel_details.html").read_text("utf-8")
    assert "Name the chip with --soc" not in text
    assert "Ascend910B3" in text


def test_level_0_has_a_page_too() -> None:
    Path("op_summary_1.csv").write_text("Op Name,OP Type,Task Duration(us)\na,Add,1.5\n")
    text = page(read("op_summary_1.csv"))
    assert "No busy ratios" in text
    assert "Record again with ProfilerLevel.Level1" in text
    assert "no start times" in text


def test_thousands_of_kernels_make_a_page_that_can_be_opened() -> None:
    row = "a,Add,AI_VECTOR_CORE,{},2.0\n"
    head = "Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    Path("kernel_details.csv").write_text(head + "".join(row.format(3 * n) for n in range(20_000)))
    text = page(read("kernel_details.csv"))
    assert "The first 1500 of 20000 are drawn" in text
    assert len(text) < 6_500_000


def test_open_shows_the_page_or_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = write()
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: shown.append(address) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    capsys.readouterr()
    assert main(["profile", "open", str(made)]) == 0
    html = made.with_name(made.name + ".html").resolve()
    assert shown == [html.as_uri()]
    assert "opened in the browser" in capsys.readouterr().out
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert main(["profile", "open", str(made), "--lang", "zh"]) == 0
    said = capsys.readouterr().out
    assert str(html) in said
    assert "没有浏览器" in said
    assert len(shown) == 1
