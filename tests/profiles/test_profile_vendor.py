"""The vendor's msprof-analyze, unmodified, on our profiles: it writes its page, and what it finds is in the columns."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kernels.perf import SCHEDULES, Schedule, Shape, find_soc, predict, schedule_for
from kernels.profiles import Kernel, Model, kernel_run, training_step, write_msprof, write_pytorch

pytest.importorskip("msprof_analyze")
bs4 = pytest.importorskip("bs4")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="the runs are forks")]

# its imports take longer than its work: import once, then a fork for every command line; its own entry point
RUN = """
import os, sys
from msprof_analyze.cli.entrance import msprof_analyze_cli
os.chdir(sys.argv[1])
for line in sys.stdin.read().splitlines():
    if (child := os.fork()) == 0:
        sys.argv = ["msprof-analyze", *line.split("\\t")]
        sys.exit(msprof_analyze_cli())
    if os.waitpid(child, 0)[1]:
        sys.exit(f"failed: {line}")
"""
FIXPIPE_BOUND, MTE2_BOUND, VECTOR_BOUND = "fixpipe", "mac", "vec"  # "mac" is what its rules call aic_mte2_ratio >= 0.8


def analyse(folder: Path, *commands: Iterable[object]) -> None:
    lines = "\n".join("\t".join(map(str, command)) for command in commands)
    done = subprocess.run([sys.executable, "-c", RUN, folder], input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def attention(soc: str, shape: Shape, schedule: Schedule | str) -> list[Kernel]:
    chip = find_soc(soc)
    chosen = schedule_for(schedule, chip, shape) if isinstance(schedule, str) else schedule
    return [kernel_run(predict(chip, shape, chosen), shape, chip)]


LONG = Shape(1, 16, 16, 4096, 4096)
BIG = Model(batch=4, context=2048, width=2048, heads=16, layers=1, vocab=32000, widening=4)


def test_its_findings_are_in_the_columns(tmp_path: Path) -> None:
    profiles = {
        "causal": write_pytorch(tmp_path / "1", attention("910B3", Shape(2, 4, 4, 4096, 4096, mask_mode=3), "cann")),
        "small tiles": write_pytorch(tmp_path / "2", attention("950PR", LONG, Schedule(block_q=64))),
        "slow vector code": write_pytorch(tmp_path / "3", attention("950PR", LONG, SCHEDULES["v8-unfused"])),
        "through memory": write_msprof(tmp_path / "4", attention("910B3", LONG, "pto-jit")),
        "odd sizes": write_pytorch(tmp_path / "5", attention("910B1", Shape(1, 8, 8, 4000, 4000, 64), "cann")),
        "step": write_pytorch(tmp_path / "6", training_step(find_soc("910B3"), steps=3), header="block-dim"),
        "big step": write_msprof(tmp_path / "7", training_step(find_soc("950DT"), BIG)),
    }
    analyse(
        tmp_path, *(["advisor", "all", "-d", root, "-o", root.parent / "out", "-l", "en"] for root in profiles.values())
    )
    told = {name: findings(root.parent / "out") for name, root in profiles.items()}
    for name, root in profiles.items():
        check(root, told[name])

    # what the profiles were made for; the first of the two words misleads, and of Fixpipe it says nothing
    bounds = {name: {kind: list(table.values()) for kind, table in tables.items()} for name, tables in told.items()}
    assert bounds["causal"] == {"optimization": ["41.1%"]}
    assert bounds["small tiles"] == {"bound": [MTE2_BOUND]}
    assert bounds["slow vector code"] == {"bound": [VECTOR_BOUND]}
    assert bounds["through memory"] == {"bound": [VECTOR_BOUND]}
    assert float(rows_of(profiles["through memory"])[0]["aic_fixpipe_ratio"]) > 0.99
    assert bounds["odd sizes"] == {"affinity": ["Neither D nor S is not divisible by 128"]}
    assert {"bound", "affinity"} <= bounds["step"].keys()
    assert "optimization" in bounds["big step"]

    # the overall summary: shares of the step by kind of kernel
    page = text_of(profiles["step"].parent / "out")
    for label, chosen in (
        ("Computing Time", lambda row: True),
        ("Flash Attention", lambda row: row["Type"] == "FlashAttentionScore"),  # forward; its page leaves backward out
        ("Matmul", lambda row: "MatMul" in row["Type"]),
        ("Vector", lambda row: row["Accelerator Core"] == "AI_VECTOR_CORE"),
    ):
        milliseconds = sum(float(row["Duration(us)"]) for row in rows_of(profiles["step"]) if chosen(row)) / 1000
        said = re.search(rf"{label} ([\d.]+) [\d.]+%", page)
        assert said is not None
        assert float(said[1]) == pytest.approx(milliseconds, abs=0.0011), label


def test_compare_sees_the_tuning(tmp_path: Path) -> None:
    before = attention("950PR", LONG, Schedule(block_q=64))
    after = attention("950PR", LONG, Schedule())
    old, new = write_pytorch(tmp_path / "old", before * 4), write_pytorch(tmp_path / "new", after * 4)
    analyse(tmp_path, ["compare", "-d", new, "-bp", old, "-o", tmp_path / "out"])
    [book] = (tmp_path / "out").glob("performance_comparison_result_*.xlsx")
    sheets = workbook(book)
    attention_rows = [row for row in sheets["OverallMetrics"] if "Flash Attention" in row[0]]
    times = [float(cell) for cell in attention_rows[0][1:] if re.fullmatch(r"[\d.]+", cell)]
    milliseconds = [4 * kernels[0].duration_us / 1000 for kernels in (before, after)]
    for value in milliseconds:
        assert any(time == pytest.approx(value, abs=0.002) for time in times), (value, times)
    [kernel] = [row for row in sheets["KernelCompare"] if "FlashAttentionScore" in row]
    averages = [f"{kernels[0].duration_us:.2f}" for kernels in (before, after)]
    assert all(any(cell.startswith(average[:-1]) for cell in kernel) for average in averages), kernel


# --------------------------------------------------------------------------------------------------- what it says
def findings(folder: Path) -> dict[str, dict[tuple[str, str], str]]:
    """kind ("bound", "optimization", "affinity") -> (kernel, shapes) -> what its page says."""
    [page] = folder.glob("mstt_advisor_*.html")
    result: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    kinds = {
        "bound type": "bound",
        "refer to Performance Optimization Space": "optimization",
        "type of disaffinity": "affinity",
    }
    for table in bs4.BeautifulSoup(page.read_text("utf-8"), "html.parser").find_all("table"):
        lines = [
            [cell.get_text(" ", strip=True) for cell in row.find_all(["td", "th"])] for row in table.find_all("tr")
        ]
        if lines and len(lines[0]) == 4 and lines[0][3] in kinds:
            for line in lines[1:]:
                if len(line) == 4:
                    result[kinds[lines[0][3]]][line[0], line[1]] = line[3]
    return dict(result)


def text_of(folder: Path) -> str:
    [page] = folder.glob("mstt_advisor_*.html")
    return " ".join(bs4.BeautifulSoup(page.read_text("utf-8"), "html.parser").get_text(" ").split())


# ---------------------------------------------------------------------------------------------- what the files say
def rows_of(root: Path) -> list[dict[str, str]]:
    [file] = [*root.glob("*/kernel_details.csv"), *root.glob("*/op_summary_*.csv")]
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def check(root: Path, told: dict[str, dict[tuple[str, str], str]]) -> None:
    """Every finding follows from the columns of its kernel by the thresholds of its rules; FA kernels all have one."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows_of(root):
        groups[row.get("Name") or row["Op Name"], row["Input Shapes"].strip('"')].append(row)
    said: set[tuple[str, str]] = set()
    for kind, table in told.items():
        for key, word in table.items():
            said.add(key)
            assert (kind, word) == expected(groups[key]), key
    flash = {key for key in groups if "FlashAttention" in key[0]}
    assert flash
    assert flash <= said


def expected(rows: list[dict[str, str]]) -> tuple[str, str]:
    def mean(column: str) -> float:
        values = [0.0 if row[column] == "N/A" else float(row[column]) for row in rows]  # it counts N/A as 0
        return sum(values) / len(values)

    kind = rows[0].get("Type") or rows[0]["OP Type"]
    shapes = [shape.split(",") for shape in rows[0]["Input Shapes"].strip('"').split(";")]
    if "FlashAttention" in kind:
        head_dim = int(shapes[0][3])
        sequence = rows[0]["Output Shapes"].strip('"').split(";")[0].split(",")[2]
        odd = {"D": head_dim % 128 != 0, "S": len(sequence) >= 3 and int(sequence) % 128 != 0}
        if all(odd.values()):
            return "affinity", "Neither D nor S is not divisible by 128"
        for letter, is_odd in odd.items():
            if is_odd:
                return "affinity", f"{letter} is not divisible by 128"
        second = ("aic_fixpipe_ratio", FIXPIPE_BOUND) if kind.endswith("Grad") else ("aiv_vec_ratio", VECTOR_BOUND)
        limits = {"aic_mte2_ratio": (0.8, MTE2_BOUND), second[0]: (0.75, second[1])}
        words = [word for column, (limit, word) in limits.items() if mean(column) >= limit]
        if words:
            return "bound", words[0] if len(words) == 1 else "_and_".join(words) + "_bound"
        return "optimization", percent(max(limit - mean(column) for column, (limit, _) in limits.items()))
    if "MatMul" in kind:
        if any(int(shape[-1]) % 256 for shape in shapes[:2]):
            return "affinity", "Then inner axis is not divisible by 256"
        mac, mte2 = mean("aic_mac_ratio"), mean("aic_mte2_ratio")
        if mac >= 0.8 and mte2 >= 0.95:
            return "bound", "mac_and_mte2_bound"
        if max(mac, mte2) >= 0.95:  # its code takes the limit of mte2 for mac as well
            return "bound", "mac" if mac >= 0.95 else "mte2"
        return "optimization", percent(max(0.8 - mac, 0.95 - mte2))
    parts = {"mte2": mean("aiv_mte2_ratio"), "mte3": mean("aiv_mte3_ratio"), "vec": mean("aiv_vec_ratio")}
    if sum(parts.values()) >= 0.9:
        return "bound", "vec_mte2_mte3"
    for pipe, ratio in parts.items():
        if ratio >= 0.7:
            return "bound", pipe
    return "optimization", percent(max(0.7 - ratio for ratio in parts.values()))


def percent(share: float) -> str:
    return f"{round(share * 100, 2)}%"


def workbook(file: Path) -> dict[str, list[list[str]]]:
    """The cells of an .xlsx as text, sheet by sheet."""
    space = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(file) as archive:

        def parse(name: str) -> Any:
            return ElementTree.fromstring(archive.read(name))

        shared = ["".join(item.itertext()) for item in parse("xl/sharedStrings.xml").findall("m:si", space)]
        names = [sheet.get("name") or "" for sheet in parse("xl/workbook.xml").iter(f"{{{space['m']}}}sheet")]
        result = {}
        for number, name in enumerate(names, 1):
            result[name] = [
                [
                    shared[int(value)] if cell.get("t") == "s" else value
                    for cell in row.findall("m:c", space)
                    if (value := cell.findtext("m:v", namespaces=space)) is not None
                ]
                for row in parse(f"xl/worksheets/sheet{number}.xml").iter(f"{{{space['m']}}}row")
            ]
    return result
