"""Tables cut, reordered and spoiled on the way: the same utilisation, or less of it with a note, or one clear error."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.perf import Shape, find_soc, predict, schedule_for
from kernels.profiles import PROBLEMS, BadProfile, Kernel, kernel_run, read, training_step, utilisation, write_pytorch

SOC = find_soc("910B3")
Rows = list[list[str]]


def kernels() -> list[Kernel]:
    shape = Shape(2, 4, 4, 4096, 4096, mask_mode=3)
    run = kernel_run(predict(SOC, shape, schedule_for("cann", SOC, shape)), shape, SOC, start=500.0, step=0)
    return [*training_step(SOC)[:30], run]


@pytest.fixture(scope="module", params=["block-num", "block-dim"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pytorch(tmp_path_factory.mktemp("profile"), kernels(), header=request.param)


def table(root: Path) -> str:
    return (root / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").read_text("utf-8")


def on_rows(change: Callable[[Rows], Rows]) -> Callable[[str], str]:
    def spoil(text: str) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(change(list(csv.reader(io.StringIO(text)))))
        return out.getvalue()

    return spoil


def shuffled(rows: Rows) -> Rows:
    order = random.Random(3).sample(range(len(rows[0])), len(rows[0]))
    return [[row[column] for column in order] for row in rows]


def without(ending: str) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        keep = [column for column, name in enumerate(rows[0]) if not name.endswith(ending)]
        return [[row[column] for column in keep] for row in rows]

    return change


def with_foreign_columns(rows: Rows) -> Rows:
    return [[row[0], f"x{line}", *row[1:], "1,2"] for line, row in enumerate(rows)]


def with_both_block_columns(rows: Rows) -> Rows:
    other = {"Block Num": "Block Dim", "Block Dim": "Block Num"}
    at = next(column for column, name in enumerate(rows[0]) if name in other)
    return [[*rows[0], other[rows[0][at]]], *([*row, row[at]] for row in rows[1:])]


def padded(rows: Rows) -> Rows:
    return [rows[0], *([f" {cell}\t" for cell in row] for row in rows[1:])]


def cell(name: str, value: str, line: int = -1) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        rows[line][rows[0].index(name)] = value
        return rows

    return change


def column(name: str, value: str) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        at = rows[0].index(name)
        return [rows[0], *([*row[:at], value, *row[at + 1 :]] for row in rows[1:])]

    return change


SAME: dict[str, Callable[[str], str]] = {
    "a byte order mark and carriage returns": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "columns in another order": on_rows(shuffled),
    "columns of a later version": on_rows(with_foreign_columns),
    "no times of the pipes": on_rows(without("_time(us)")),
    "no ratios, only times": on_rows(without("_ratio")),
    "both names of the block column": on_rows(with_both_block_columns),
    "blanks and tabs around every cell": on_rows(padded),
    "the header in small letters": lambda text: text[: text.index("\n")].lower() + text[text.index("\n") :],
    "no utilisation column: from the cycles": on_rows(without("cube_utilization(%)")),
    "no cycles and no utilisation: from blocks": on_rows(
        lambda rows: without("_cycles")(without("cube_utilization(%)")(rows))
    ),
    "empty lines at the end": lambda text: text + "\n\n",
    "a last line that does not end": lambda text: text[:-1],
    "per cent where a ratio belongs: the time says it": on_rows(cell("aic_mac_ratio", "36.5")),
}
NOTED = {
    "a last line that does not end": "last-line-open",
    "per cent where a ratio belongs: the time says it": "out-of-range",
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_utilisation(written: Path, tmp_path: Path, name: str) -> None:
    before = utilisation(read(written))
    file = spoiled(written, tmp_path, SAME[name](table(written)))
    profile = read(file)
    after = utilisation(profile, read(written).device)
    for unit, share in before.items():
        if share.value is None:
            assert after[unit].value is None
        else:  # a ratio from times has their three decimals, of kernels that work for 0.3 us
            assert after[unit].value == pytest.approx(share.value, abs=2e-3), unit
            assert after[unit].measured_us == pytest.approx(share.measured_us)
    assert [note.id for note in profile.notes] == ([NOTED[name]] if name in NOTED else [])


@pytest.mark.parametrize(
    "change", [str.lower, lambda line: line.replace(" ", ""), lambda line: line.replace(" ", "\t ")]
)
def test_the_name_of_the_block_column_is_known_however_it_is_written(
    written: Path, tmp_path: Path, change: Callable[[str], str]
) -> None:
    header, rest = table(written).split("\n", 1)
    assert change(header) != header
    found = read(spoiled(written, tmp_path, f"{change(header)}\n{rest}"))
    assert found.header == read(written).header != "none"
    assert found.kernels[-1].block_num


def test_the_utilisation_is_what_the_columns_say(written: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(table(written))))
    total = sum(float(row["Duration(us)"]) for row in rows)
    cube = vector = 0.0
    for row in rows:
        if row["Accelerator Core"] != "AI_VECTOR_CORE":  # share of the cores x share of their time that multiplies
            cube += float(row["cube_utilization(%)"]) / 100 * float(row["aic_mac_ratio"]) * float(row["Duration(us)"])
        if row["Accelerator Core"] != "AI_CORE":
            busy = float(row["aiv_total_cycles"]) * float(row["aiv_vec_ratio"])
            vector += busy / (2 * SOC.cores * SOC.mhz)
    told = utilisation(read(written))
    assert told["cube"].value == pytest.approx(cube / total)
    assert told["vector"].value == pytest.approx(vector / total)
    assert told["cube"].measured_us == pytest.approx(total)
    assert told["vector_scalar"].value is None  # no column says it: None, not 0


def spoiled(written: Path, tmp_path: Path, text: str | bytes) -> Path:
    """The table alone: facts of the chip and the statistic stay behind, as when a file is mailed."""
    file = tmp_path / "kernel_details.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


LESS: dict[str, tuple[Callable[[str], str], str | None, str]] = {  # -> note, unit that is known less of
    "N/A in one cell": (
        on_rows(lambda rows: cell("aiv_vec_time(us)", "N/A")(cell("aiv_vec_ratio", "N/A")(rows))), None, "vector"),
    "an empty cell": (on_rows(
        lambda rows: cell("aic_mte2_time(us)", "")(cell("aic_mte2_ratio", "")(rows))), None, "mte2"),
    "words in a cell of numbers": (
        on_rows(lambda rows: cell("aic_fixpipe_time(us)", "n/a")(cell("aic_fixpipe_ratio", "0,57")(rows))),
        "not-a-number", "fixpipe"),
    "no type of core": (on_rows(column("Accelerator Core", "N/A")), None, ""),
    "a start that is no time": (on_rows(cell("Start Time(us)", "yesterday")), "not-a-number", ""),
    "a ratio that its time contradicts": (on_rows(cell("aic_mte2_ratio", "0.867")), "ratio-disagrees", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", LESS)
def test_less_but_not_wrong(written: Path, tmp_path: Path, name: str) -> None:
    spoil, note, unit = LESS[name]
    before, after = utilisation(read(written)), read(spoiled(written, tmp_path, spoil(table(written))))
    assert [found.id for found in after.notes] == ([note] if note else [])
    assert all("line 32" in found.where for found in after.notes)
    if unit:
        known = utilisation(after)[unit]
        assert known.measured_us == pytest.approx(before[unit].measured_us - kernels()[-1].duration_us, abs=0.01)
    assert len(after.kernels) == 31


ERRORS: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "cut within a line": (lambda text: text[: text.rindex(",MIX_AIC")], "cut"),
    "cut within the shapes": (lambda text: text[: text.rindex("2048,2048")], "cut"),
    "quotes around the shapes lost": (lambda text: text.replace('"', ""), "row"),
    "a column twice": (on_rows(lambda rows: [[*row, row[10]] for row in rows]), "duplicate-column"),
    "semicolons": (lambda text: text.replace(",", ";"), "separator"),
    "saved as Unicode text": (lambda text: text.encode("utf-16"), "not-text"),
    "saved as a workbook": (lambda text: b"PK\x03\x04" + text.encode(), "not-text"),
    "of another encoding": (lambda text: text.replace("LayerNorm", "归一化").encode("gbk"), "not-text"),
    "nothing in the file": (lambda text: "", "empty-file"),
    "nothing below the header": (lambda text: text[: text.index("\n") + 1], "no-kernels"),
    "no header": (lambda text: text[text.index("\n") + 1 :], "header"),
    "no durations": (on_rows(without("Duration(us)")), "header"),
    "a negative duration": (on_rows(cell("Duration(us)", "-397.686")), "number"),
    "a duration of N/A": (on_rows(cell("Duration(us)", "N/A")), "number"),
    "two files in one": (lambda text: text + text, "number"),
    "zeros of a full disk": (lambda text: text.encode() + b"\0" * 512, "not-text"),
    "one endless line": (lambda text: text + "x" * 200_000, "not-text"),
    "a quote too many": (lambda text: text.replace('2048"""', '2048"x""'), "quotes"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_one_clear_error(written: Path, tmp_path: Path, name: str) -> None:
    spoil, problem = ERRORS[name]
    with pytest.raises(BadProfile) as caught:
        read(spoiled(written, tmp_path, spoil(table(written))))
    error = caught.value
    assert error.problem == problem in PROBLEMS
    message = str(error)
    assert "kernel_details.csv" in message
    assert "{" not in message
    assert "\n" not in message
    if problem in ("cut", "number") and name != "two files in one":
        assert error.facts["line"] == 32  # the last, where it was spoiled


def test_a_table_cut_between_lines_shows_in_the_statistic(tmp_path: Path) -> None:
    root = write_pytorch(tmp_path, kernels())
    file = root / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    whole = file.read_text("utf-8")
    assert read(root).notes == []
    file.write_text("".join(whole.splitlines(keepends=True)[:-1]), "utf-8")
    assert [note.id for note in read(root).notes] == ["statistic-disagrees"]
    took = f",{kernels()[-1].duration_us:.3f},"
    file.write_text(whole.replace(took, f",2{took[2:]}"), "utf-8")
    assert [note.id for note in read(root).notes] == ["statistic-disagrees"]


def test_any_damage_is_a_profile_or_one_error(tmp_path: Path) -> None:
    """Bytes lost, doubled, changed, in any file that is read: nothing but BadProfile comes out, and never NaN."""
    root = write_pytorch(tmp_path, kernels()[:6])
    output = root / "ASCEND_PROFILER_OUTPUT"
    names = ("kernel_details.csv", "op_statistic.csv", "step_trace_time.csv")
    files = [*(output / name for name in names), *root.glob("*.json"), *root.rglob("info.json.0")]
    assert len(files) == 6
    whole = {file: file.read_bytes() for file in files}
    chance = random.Random(11)
    seen = {"read": 0, "refused": 0}
    for _ in range(150):
        file = chance.choice(files)
        data = bytearray(whole[file])
        for _ in range(chance.choice((1, 1, 2, 5, 40))):
            at = chance.randrange(len(data) or 1)
            what = chance.randrange(5)
            if what == 0 and data:
                data[at] = chance.choice(b'\x00\xff,";\n\r\t-9eEN:{}[]')
            elif what == 1:
                del data[at : at + chance.choice((1, 3, 50))]
            elif what == 2:
                data[at:at] = chance.choice((b"nan", b"inf", b"1e999", b'"', b"\n", b",", b"[" * 2000, data[:500]))
            elif what == 3:
                del data[at + 1 :]
            else:
                data[at:at] = data[at : at + 30]
        file.write_bytes(data)
        try:
            profile = read(root)
        except BadProfile:
            seen["refused"] += 1
        else:
            seen["read"] += 1
            for share in utilisation(profile).values():
                assert share.value is None or 0 <= share.value < float("inf")
        file.write_bytes(whole[file])
    assert min(seen.values()) > 10
