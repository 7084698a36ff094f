"""Which folder is a profile, what a folder that is none is told, and a table of a real run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.perf import PIPES, Shape, find_soc, predict, schedule_for, timeline
from kernels.profiles import (
    BadProfile,
    Device,
    Kernel,
    core_trace,
    kernel_run,
    read,
    stream,
    trace_times,
    training_step,
    utilisation,
    write_msprof,
    write_pytorch,
    write_trace,
)

SOC = find_soc("910B3")


@pytest.fixture(scope="module")
def step() -> list[Kernel]:
    return training_step(SOC, gap_us=1.0)


def test_every_door_leads_to_the_same_profile(step: list[Kernel], tmp_path: Path) -> None:
    root = write_pytorch(tmp_path / "runs", step)
    output = root / "ASCEND_PROFILER_OUTPUT"
    doors = [root, output, output / "kernel_details.csv", tmp_path / "runs"]
    assert len({str(read(door).kernels) for door in doors}) == 1
    assert {read(door).kind for door in doors} == {"pytorch"}

    root = write_msprof(tmp_path / "other", step)
    output = root / "mindstudio_profiler_output"
    table = next(output.glob("op_summary_*.csv"))
    for door in (root, output, table, tmp_path / "other"):
        profile = read(door)
        assert (profile.kind, len(profile.kernels), profile.device) == ("msprof", len(step), Device.of(SOC))

    # large tables come in slices
    lines = table.read_text("utf-8").splitlines(keepends=True)
    for number, part in enumerate((lines[:40], [lines[0], *lines[40:]])):
        (output / f"op_summary_slice_{number}_19700101000001.csv").write_text("".join(part), "utf-8")
    table.unlink()
    assert [kernel.name for kernel in read(root).kernels] == [kernel.name for kernel in step]


def test_what_is_no_profile_is_told_what_to_do(step: list[Kernel], tmp_path: Path) -> None:
    def refused(path: Path, problem: str, *words: str) -> None:
        with pytest.raises(BadProfile) as caught:
            read(path)
        assert caught.value.problem == problem
        for word in (str(path), *words):
            assert word in str(caught.value)
        with pytest.raises(BadProfile, match=str(path)):
            next(stream(path))

    def folder(*parts: str, file: str = "") -> Path:
        place = tmp_path.joinpath(*parts)
        place.mkdir(parents=True, exist_ok=True)
        if file:
            (place / file).write_text("x", "utf-8")
        return place

    refused(tmp_path / "nowhere", "missing")
    refused(folder("empty"), "empty-folder")
    refused(folder("notes", file="todo.txt"), "not-a-profile", "_ascend_pt", "PROF_")
    refused(folder("notes") / "todo.txt", "not-a-profile")
    refused(folder("OPPROF_20260101_ABC", file="OpBasicInfo.csv"), "other-tool", "msprof op")
    refused(folder("gpu", file="host.pt.trace.json"), "other-tool", "torch.profiler")
    refused(folder("gpu") / "host.pt.trace.json", "other-tool", "torch.profiler")
    folder("raw", "h_1_2026_ascend_pt", "FRAMEWORK")
    refused(tmp_path / "raw" / "h_1_2026_ascend_pt", "not-parsed", "analyse(")
    folder("PROF_000001_2026_AAA", "device_0")
    refused(tmp_path / "PROF_000001_2026_AAA", "not-parsed", "msprof --export=on")
    folder("h_1_2027_ascend_pt", "ASCEND_PROFILER_OUTPUT", file="trace_view.json")
    refused(tmp_path / "h_1_2027_ascend_pt", "half-written", "kernel_details")
    folder("h_1_2028_ascend_pt", "ASCEND_PROFILER_OUTPUT", file="ascend_pytorch_profiler_0.db")
    with pytest.raises(BadProfile, match=r"ExportType\.Text") as caught:
        read(tmp_path / "h_1_2028_ascend_pt")
    assert caught.value.problem == "database-only"
    for host in ("a", "b"):
        write_pytorch(tmp_path / "two", step, host=host)
    refused(tmp_path / "two", "several", "a_1_", "b_1_")
    refused_count = 5
    with pytest.raises(BadProfile, match=r"stream\(\)") as caught:
        read(tmp_path / "two" / next((tmp_path / "two").iterdir()).name, max_kernels=refused_count)
    assert caught.value.problem == "too-large"


def test_what_is_written_is_read(step: list[Kernel], tmp_path: Path) -> None:
    profile = read(write_pytorch(tmp_path, step, about={"schedule": "cann"}))
    assert profile.notes == []
    assert profile.emulated is not None
    assert profile.emulated["schedule"] == "cann"
    assert "not measured" in profile.emulated["statement"]
    metrics = "ACL_AICORE_PIPE_UTILIZATION"
    assert profile.settings == {"level": "Level1", "metrics": metrics, "cann": "8.5.0", "torch_npu": "none (emulated)"}
    times = trace_times(profile.path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    assert times["Ascend Hardware", "Stream 2"] == pytest.approx(profile.duration_us)
    for before, after in zip(step, profile.kernels, strict=True):
        assert after.start_ns == (before.start_ns or 0) + 10**9
        for name in ("name", "type", "core", "step", "state", "block_num", "input_shapes", "output_dtypes", "device"):
            assert getattr(after, name) == getattr(before, name), name
        assert after.duration_us == pytest.approx(before.duration_us, abs=6e-4)
        assert after.cube_utilization == pytest.approx(before.cube_utilization or 0.0, abs=6e-4)
        for ratios, kept in ((before.ratios, after.ratios), (before.aiv_ratios, after.aiv_ratios)):
            for pipe, ratio in ratios.items():
                assert kept[pipe] == pytest.approx(ratio, abs=6e-4) or (ratio is None and not kept[pipe])
    [told] = profile.steps
    assert told.computing == pytest.approx(profile.duration_us)
    assert told.free == pytest.approx(len(step) - 1, abs=0.01)  # a microsecond between two kernels
    with pytest.raises(FileExistsError):
        write_pytorch(tmp_path, step)


def test_level_0_has_times_only(step: list[Kernel], tmp_path: Path) -> None:
    profile = read(write_pytorch(tmp_path, step, level=0))
    assert (profile.level, [note.id for note in profile.notes]) == (0, ["level-0"])
    assert profile.duration_us == pytest.approx(sum(kernel.duration_us for kernel in step), abs=0.1)
    told = utilisation(profile)
    assert {name for name, share in told.items() if share.value is not None} == set()
    for bad in ({"level": 2}, {"header": "Block Num"}):
        with pytest.raises(ValueError, match="must be"):
            write_pytorch(tmp_path / "x", step, **bad)
    with pytest.raises(ValueError, match="at least one"):
        write_msprof(tmp_path / "x", [])


def test_headers_of_both_generations_and_of_the_950(tmp_path: Path) -> None:
    headers = {}
    for name in ("910B3", "950PR"):
        soc = find_soc(name)
        shape = Shape(1, 16, 16, 4096, 4096)
        schedule = schedule_for("cann" if name == "910B3" else "example", soc, shape)
        run = kernel_run(predict(soc, shape, schedule), shape, soc)
        for header in ("block-num", "block-dim"):
            root = write_msprof(tmp_path / name / header, [run], header=header)
            headers[name, header] = next(root.rglob("op_summary*.csv")).read_text("utf-8").splitlines()[0].split(",")
            assert read(root).header == header
            assert read(root).kernels[0].block_num == soc.cores
    old, new = headers["910B3", "block-dim"], headers["910B3", "block-num"]
    renamed = {"Block Dim": "Block Num", "Mix Block Dim": "Mix Block Num"}
    assert [renamed.get(name, name) for name in old] == new
    assert len(new) == 46
    added = [name for name in headers["950PR", "block-num"] if name not in new]
    assert added == ["aic_mte3_time(us)", "aic_mte3_ratio"]


# A row of a real run (910B3, CANN 8.x, msprof-analyze's own test data; figures only, without its edited ratio of MTE2)
REAL = {
    "Device_id": "0", "Model ID": "4294967295", "Task ID": "8116", "Stream ID": "2", "Type": "FlashAttentionScore",
    "Name": "aclnnFlashAttentionScore_FlashAttentionScore_FlashAttentionScore", "OP State": "dynamic",
    "Accelerator Core": "MIX_AIC", "Start Time(us)": "1736413971558972.912\t", "Duration(us)": "407.100",
    "Wait Time(us)": "0.900", "Block Dim": "20", "Mix Block Dim": "40", "HF32 Eligible": "NO",
    "Input Shapes": '"""4096,2,512;4096,2,512;4096,2,512;;;;4096,4096;;;;;"""',
    "Input Data Types": "DT_BF16;DT_BF16;DT_BF16;;;;BOOL;;;;;", "aicore_time(us)": "361.1",
    "aic_mac_time(us)": "129.0", "aic_mac_ratio": "0.357", "aic_scalar_ratio": "0.962", "aic_mte1_time(us)": "108.4",
    "aic_mte1_ratio": "0.300", "aic_mte2_time(us)": "168.9", "aic_fixpipe_ratio": "0.584",
    "aic_icache_miss_rate": "0.001", "aiv_time(us)": "360.7", "aiv_vec_ratio": "0.634", "aiv_mte2_ratio": "0.307",
    "aiv_mte3_ratio": "0.195", "cube_utilization(%)": "88.7",
}  # fmt: skip


def test_a_real_row(tmp_path: Path) -> None:
    lines = [",".join(REAL), *([",".join(REAL.values())] * 2)]
    (tmp_path / "kernel_details.csv").write_text("\ufeff" + "\r\n".join(lines) + "\r\n", "utf-8", newline="")
    profile = read(tmp_path)
    assert (profile.kind, profile.level, profile.header, profile.notes) == ("pytorch", 1, "block-dim", [])
    kernel = profile.kernels[1]
    assert kernel.start_ns == 1736413971558972912  # exact: a float would end in 973000
    assert kernel.input_shapes is not None
    assert kernel.input_shapes[:4] == ((4096, 2, 512), (4096, 2, 512), (4096, 2, 512), None)
    assert kernel.input_shapes[6] == (4096, 4096)
    assert kernel.ratios["mte2"] == pytest.approx(0.468, abs=5e-4)  # from its time: the ratio is not in the file
    told = utilisation(profile)
    assert told["cube"].value == pytest.approx(0.887 * 0.357)
    assert told["vector"].value == pytest.approx(360.7 / 407.1 * 0.634)
    assert told["vector_scalar"].value is None
    assert utilisation(kernel)["cube_occupancy"].value == pytest.approx(0.887)


def test_chip_from_the_counters(tmp_path: Path) -> None:
    """MatMulV3 of msprof's documentation: 5,043,798 cycles in 140.106 us on 20 cores at 1800 MHz."""
    row = {
        "Op Name": "MatMul", "OP Type": "MatMulV3", "Task Type": "AI_CORE", "Task Duration(us)": "151.000",
        "Block Num": "20", "aicore_time(us)": "140.106", "aic_total_cycles": "5043798", "aic_mac_ratio": "0.236",
        "cube_utilization(%)": "92.785",
    }  # fmt: skip
    file = tmp_path / "op_summary_20250101000000.csv"
    file.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n", "utf-8")
    device = read(file).device
    assert device is not None
    assert (device.cores, device.mhz) == (20, 1800)
    (tmp_path / "device_0").mkdir()
    info = {"DeviceInfo": [{"id": 0, "ai_core_num": 24, "aiv_num": 48, "aic_frequency": "1850"}]}
    (tmp_path / "device_0" / "info.json.0").write_text(json.dumps(info), "utf-8")
    assert read(tmp_path).device == Device(24, 48, 1850.0)  # what the raw data say goes first


def test_the_first_generation_has_one_kind_of_core(tmp_path: Path) -> None:
    row = {
        "Op Name": "a", "OP Type": "MatMul", "Task Type": "AI_CORE", "Task Duration(us)": "100", "Block Dim": "16",
        "aicore_time(us)": "80", "total_cycles": "1280000",
        "mac_ratio": "0.5", "vec_ratio": "0.25", "mte3_ratio": "0.1",
    }  # fmt: skip
    (tmp_path / "op_summary_0_1.csv").write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n", "utf-8")
    told = utilisation(read(tmp_path), Device(cores=32, vector_cores=32, mhz=1000.0))
    values = {name: told[name].value for name in ("cube", "vector", "mte3", "cube_occupancy", "fixpipe")}
    assert values == {"cube": 0.2, "vector": 0.1, "mte3": pytest.approx(0.04), "cube_occupancy": 0.4, "fixpipe": None}


def test_few_cores_are_not_a_busy_chip() -> None:
    kernel = Kernel("k", "MatMulV3", "AI_CORE", duration_us=10, aicore_us=9, block_num=4, ratios={"mac": 0.9})
    assert utilisation(kernel)["cube"].value == pytest.approx(0.81)  # nothing known of the chip
    on_chip = utilisation(kernel, Device(cores=24, vector_cores=48))
    assert on_chip["cube"].value == pytest.approx(0.81 * 4 / 24)
    assert on_chip["vector"].value == 0.0
    waves = replace(kernel, block_num=30)
    assert utilisation(waves, Device(cores=24))["cube"].value == pytest.approx(0.81)
    assert utilisation([kernel, replace(kernel, core="AI_CPU", ratios={})])["cube"].value == pytest.approx(0.405)


def test_thousands_of_kernels_one_by_one(step: list[Kernel], tmp_path: Path) -> None:
    root = write_pytorch(tmp_path, training_step(SOC, steps=30, gap_us=1.0))
    profile = read(root)
    assert len(profile.kernels) == 30 * len(step) > 3000
    assert len(profile.steps) == 30
    assert utilisation(stream(root)) == utilisation(profile)

    file = root / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    file.write_text(file.read_text("utf-8")[:-100], "utf-8")
    kernels = stream(root)
    whole = [next(kernels).name for _ in profile.kernels[:-1]]  # a line at a time: the damage is not seen yet
    assert whole == [kernel.name for kernel in profile.kernels[:-1]]
    with pytest.raises(BadProfile, match="cut"):
        next(kernels)


def test_the_trace_of_one_core(tmp_path: Path) -> None:
    shape = Shape(1, 4, 4, 1024, 1024)
    events = timeline(SOC, shape, schedule_for("cann", SOC, shape), tiles=4)
    slices = [event for event in core_trace(events, SOC.mhz) if event["ph"] == "X"]
    assert len(slices) == len(events)
    ends: dict[tuple[int, int], float] = {}
    for event in sorted(slices, key=lambda event: float(event["ts"])):
        row = event["pid"], event["tid"]
        assert float(event["ts"]) >= ends.get(row, 0.0) - 1e-9  # a pipe does one thing at a time
        ends[row] = float(event["ts"]) + event["dur"]

    file = write_trace(tmp_path / "core.json", core_trace(events, SOC.mhz))
    times = {thread: us for (_, thread), us in trace_times(file).items()}
    assert set(times) == set(PIPES)
    for pipe, us in times.items():
        cycles = sum(event.end - event.start for event in events if event.pipe == pipe)
        assert us == pytest.approx(cycles / SOC.mhz, abs=0.001 * len(events))
    whole = file.read_text("utf-8")
    file.write_text(f'{{"traceEvents": {whole}}}', "utf-8")
    assert {thread: us for (_, thread), us in trace_times(file).items()} == times
    for text in (whole[: len(whole) // 2], "[1, 2]", '{"schemaVersion": 1}', '[{"ph": "X", "pid": 1}]', ""):
        file.write_text(text, "utf-8")
        with pytest.raises(BadProfile) as caught:
            trace_times(file)
        assert caught.value.problem == "not-a-trace"
    with pytest.raises(BadProfile, match="fewer steps"):
        trace_times(write_trace(file, core_trace(events, SOC.mhz)), max_bytes=1000)
