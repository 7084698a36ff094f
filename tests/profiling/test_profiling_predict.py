"""predict, calibration, sweep: what the model says, in words and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grader.cli import main
from grader.commands.profile import calibration
from grader.paths import ROOT
from kernels.perf import CAVEATS, PIPES, SCHEDULES, Schedule, Shape, find_soc, predict
from kernels.perf.calibration import calibrate

SHAPE = ("--shape", "1,16,16,4096,4096,128")


@pytest.fixture(autouse=True)
def in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    monkeypatch.chdir(tmp_path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["profile", *arguments, "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


def test_the_document_is_the_models_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--dtype", "bf16", "--mask", "causal", "--schedule", "v4")
    found = answer(capsys, "predict", "--soc", "950pr", *SHAPE, *options)
    shape = Shape(1, 16, 16, 4096, 4096, 128, "bfloat16", 3)
    expected = predict(find_soc("950PR"), shape, SCHEDULES["v4"])
    assert found["microseconds"] == expected.microseconds
    assert found["low"] < found["microseconds"] < found["high"]
    assert found["busy"] == dict(expected.busy)
    assert set(found["busy"]) == set(PIPES)
    assert found["bound"] == expected.bound
    assert found["buffers"]["UB"]["used"] == expected.buffers["UB"].used
    assert sum(found["buffers"]["L1"]["parts"].values()) == found["buffers"]["L1"]["used"]
    assert found["shape"]["mask_mode"] == 3
    assert Schedule.from_json(found["schedule"]) == SCHEDULES["v4"]


def test_a_schedule_comes_from_a_file_or_from_one_entry_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    small = Schedule(block_q=64, preload=1)
    Path("one.json").write_text(json.dumps({"block_q": 64, "preload": 1}), encoding="utf-8-sig")
    Path("four.json").write_text(json.dumps({"tiles": small.to_json(), "other": {}}))
    for name in ("one.json", "four.json:tiles"):
        assert Schedule.from_json(answer(capsys, "predict", *SHAPE, "--schedule", name)["schedule"]) == small


def test_each_kind_of_chip_has_a_schedule_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert Schedule.from_json(answer(capsys, "predict")["schedule"]) == SCHEDULES["v8"]
    assert answer(capsys, "predict", "--soc", "910B3")["schedule"]["s_path"] == "gm"


def test_words_in_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["profile", "predict", "--soc", "910B3", "--shape", "1,16,16,4096,4096,64", "--mask", "causal"]
    assert main([*arguments, "--lang", "en"]) == 0
    english = capsys.readouterr().out
    assert main([*arguments, "--lang", "zh"]) == 0
    chinese = capsys.readouterr().out
    for words in ("between", "a guess", f"! {CAVEATS['head-dim'][:40]}", "no pipe is full", "KiB", "causal"):
        assert words in english, words
    for words in ("误差带", "推测", "head_dim 不是 128 的实测", "没有一条流水线满", "缓冲区", "causal 掩码"):
        assert words in chinese, words
    assert main(["profile", "predict", "--lang", "en"]) == 0
    assert "bound by Vector" in capsys.readouterr().out
    for text in (english, chinese):
        assert text.count("█") > 24
        assert text.count(" %") >= len(PIPES) + 5


def test_predicting_waits_for_no_torch_and_no_plotly(tmp_path: Path) -> None:
    program = (
        "import sys; from grader.cli import main; assert main(['profile', 'predict']) == 0; "
        "print([name for name in ('torch', 'plotly', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_calibration_shows_every_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = calibrate()
    monkeypatch.setattr(calibration, "calibrate", lambda: list(rows))
    found = answer(capsys, "calibration")
    assert len(found["rows"]) == len(rows)
    assert sum(group["rows"] for group in found["groups"]) == len(rows)
    first = found["rows"][0]
    assert first["error"] == pytest.approx(first["predicted_us"] / first["measured_us"] - 1)
    assert main(["profile", "calibration", "--lang", "zh"]) == 0
    said = capsys.readouterr().out
    assert said.count("留出") >= sum(row.part == "holdout" for row in rows)
    assert "误差中位数" in said
    assert "flash_attn_lite v8" in said


def test_a_sweep_finds_what_the_model_finds(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "sweep", "--schedule", "v8", *SHAPE)
    times = {(s["schedule"]["block_q"], s["schedule"]["block_kv"]): s["microseconds"] for s in found["schedules"]}
    assert min((us, tile) for tile, us in times.items() if us)[1] == (128, 128)
    assert times[192, 512] is None
    assert main(["profile", "sweep", "--schedule", "v8", *SHAPE, "--out", "picture.html"]) == 0
    said = capsys.readouterr().out
    assert "picture.html" in said
    table = next(line.split() for line in said.splitlines() if line.split()[:1] == ["128"])
    assert table[3] == f"{times[128, 128]:.0f}"
    page = Path("picture.html").read_text("utf-8")
    assert f"{times[128, 128]:.1f}" in page
    assert "Time against tile size" in page


def test_a_sweep_in_which_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wide.json").write_text('{"l0c_slots": 16, "l0_slots": 16}')
    assert main(["profile", "sweep", "--schedule", "wide.json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "none of 77 schedules fits" in said.err
    assert "L0A overflows" in said.err
