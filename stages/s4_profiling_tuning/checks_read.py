"""Checks of s4-read: tables whose values are known, spelt in the ways in which real files differ."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.checking.folders import folder
from grader.subject import Provided, Raised
from grader.vocabulary import Context, check, say
from kernels import profiles
from kernels.perf import find_soc
from kernels.profiles import training_step, write_msprof, write_pytorch

from . import tables
from .plain_values import require_dict, same, shown
from .tables import Row

READ = "read_profile"
PYTORCH, MSPROF = "ASCEND_PROFILER_OUTPUT/kernel_details.csv", "mindstudio_profiler_output/op_summary_{}.csv"
FOLDERS = {
    "pytorch": "node_4711_20261201083000123_ascend_pt",
    "msprof": "PROF_000001_20261201083000123_ABCDEFGHIJKLMNOP",
}
STAMP = "20261201083015"


def profile(kind: str, text: str, more: Mapping[str, str] | None = None) -> Provided:
    """A profile folder with this table in it, and more files by their relative paths."""
    place = PYTORCH if kind == "pytorch" else MSPROF.format(STAMP)
    return folder(FOLDERS[kind], {place: text, **(more or {})})


def read(ctx: Context, place: Provided, stumbles: str | None = None) -> Mapping[str, Any]:
    """``stumbles``: the idea behind an error, on a table that differs from one that was read in this alone."""
    try:
        value = ctx.subject.call(READ, place).value
    except Raised as error:
        error.misconception = error.misconception or stumbles
        raise
    value = require_dict(ctx, value, ("kind", "kernels"))
    if not isinstance(value["kernels"], (list, tuple)):
        ctx.fail(
            say(
                "kernels 应是列表，得到 {got}。",
                "kernels must be a list, it is {got}.",
                got=shown(value["kernels"]),
            ),
            misconception="wrong-return",
        )
    return value


def require_kernels(
    ctx: Context, value: Mapping[str, Any], kind: str, want: Sequence[Row], idea: Mapping[str, str] | str | None = None
) -> None:
    """``idea``: what to name when values are wrong; a mapping is asked for the keys that are wrong, all of one idea."""
    if value["kind"] != kind:
        ctx.fail(
            say(
                "kind 应为 {want}，得到 {got}。",
                "kind must be {want}, it is {got}.",
                want=kind,
                got=shown(value["kind"]),
            ),
            evidence={"expected": kind, "got": shown(value["kind"])},
        )
    kernels = value["kernels"]
    if len(kernels) != len(want):
        ctx.fail(
            say(
                "表里有 {want} 行，得到 {got} 个 kernel。",
                "The table has {want} rows, {got} kernels came back.",
                want=len(want),
                got=len(kernels),
            ),
            misconception=idea if isinstance(idea, str) else None,
            evidence={"expected": len(want), "got": len(kernels)},
        )
    for kernel in kernels:
        require_dict(ctx, kernel, tables.KEYS, exactly=True)
    wrong = [
        (n, key) for n, row in enumerate(want) for key in tables.KEYS if not _alike(key, kernels[n][key], row[key])
    ]
    if not wrong:
        return
    n, key = wrong[0]
    got = kernels[n][key]
    ctx.fail(
        say(
            "第 {row} 行的 {key} 应为 {want}，得到 {got}。",
            "{key} of row {row} must be {want}, it is {got}.",
            row=n + 1,
            key=key,
            want=_spelt(want[n][key]),
            got=_spelt(got),
        ),
        misconception=_named({key for _, key in wrong}, idea, [(kernels[n][key], want[n][key]) for n, key in wrong]),
        evidence={"expected": _spelt(want[n][key]), "got": _spelt(got), "case": f"{key}, row {n + 1}"},
    )


def _alike(key: str, got: Any, want: Any) -> bool:
    """The contract asks for int in these two; a float equals one, but indexes nothing."""
    return same(got, want) and (key not in ("block_num", "input_shapes") or _whole(got))


def _whole(value: Any) -> bool:
    return all(map(_whole, value)) if isinstance(value, (list, tuple)) else value is None or type(value) is int


def _spelt(value: Any) -> str:
    """As Python writes it, so that a string shows its quotes and blanks."""
    return repr(value)[:120]


def _named(keys: set[str], idea: Mapping[str, str] | str | None, pairs: list[tuple[Any, Any]]) -> str | None:
    if all(same(got, want) for got, want in pairs):
        return "read-float"
    if len(pairs) > 1 and all(want is None and got in (0, 0.0) and got is not False for got, want in pairs):
        return "read-zero-for-missing"
    if len(pairs) > 1 and all(want is None and got in ("N/A", "") for got, want in pairs):
        return "read-not-available"
    if len(pairs) > 1 and all(
        isinstance(got, str) and not isinstance(want, str) and want is not None for got, want in pairs
    ):
        return "read-text"
    if isinstance(idea, Mapping):
        ideas = {idea.get(key) for key in keys}
        return ideas.pop() if len(ideas) == 1 else None
    return idea


@check("s4-read.values", points=2, concept="profile-files")
def read_values(ctx: Context) -> None:
    """A folder of torch_npu.profiler with everything in it; other files lie beside the table."""
    rows = tables.draw_rows(ctx.rng(), 7)
    text = tables.table(tables.header("pytorch"), [tables.cells_of(row, "pytorch") for row in rows])
    other = {
        "ASCEND_PROFILER_OUTPUT/op_statistic.csv": "Device_id,OP Type,Core Type,Count\n0,Cast,AI_VECTOR_CORE,3\n",
        "ASCEND_PROFILER_OUTPUT/step_trace_time.csv": "Device_id,Step,Computing\n0,1,1234.5\n",
        "profiler_info.json": "{}",
    }
    value = read(ctx, profile("pytorch", text, other))
    require_kernels(ctx, value, "pytorch", tables.expected(rows), {"input_shapes": "read-shapes"})


@check("s4-read.msprof", points=2, concept="profile-files", needs=("s4-read.values",))
def read_msprof(ctx: Context) -> None:
    """A folder of msprof: other names of columns, other tables beside it; and one that was exported twice."""
    rng = ctx.rng()
    rows = tables.draw_rows(rng, 6)
    columns, cells = tables.header("msprof"), [tables.cells_of(row, "msprof") for row in rows]
    other = {
        f"mindstudio_profiler_output/op_statistic_{STAMP}.csv": "Device_id,OP Type,Core Type,Count\n0,Cast,AI_CORE,3\n",
        f"mindstudio_profiler_output/task_time_{STAMP}.csv": "Device_id,kernel_name\n0,Cast\n",
        f"mindstudio_profiler_output/api_statistic_{STAMP}.csv": "Device_id,Level\n0,acl\n",
    }
    value = read(ctx, profile("msprof", tables.table(columns, cells), other), "read-msprof")
    require_kernels(ctx, value, "msprof", tables.expected(rows), "read-msprof")

    older = tables.table(columns, [tables.cells_of(row, "msprof") for row in tables.draw_rows(rng, 4)])
    first = {MSPROF.format("20261130235959"): older, MSPROF.format("20260101000000"): older}
    value = read(ctx, profile("msprof", tables.table(columns, cells), first))
    require_kernels(ctx, value, "msprof", tables.expected(rows), "read-newest")


def _written(ctx: Context, write: Callable[..., Path], soc: str, header: str) -> tuple[Provided, str, list[Row]]:
    """A training step as the course's writer puts it into files, and what its reader says of them."""
    with tempfile.TemporaryDirectory() as place:
        made = write(place, training_step(find_soc(soc)), header=header)
        files = {str(file.relative_to(made)): file.read_bytes() for file in made.rglob("*") if file.is_file()}
        found = profiles.read(made)
    return folder(made.name, files), found.kind, [_as_row(kernel) for kernel in found.kernels]


def _as_row(kernel: profiles.Kernel) -> Row:
    row: Row = dict.fromkeys(tables.KEYS) | {
        key: getattr(kernel, key)
        for key in ("name", "type", "core", "start_us", "duration_us", "block_num", "aicore_us", "aiv_us")
    }
    row["cube_utilization"] = kernel.cube_utilization
    row["input_shapes"] = [list(shape or ()) for shape in kernel.input_shapes or ()]
    row |= {name: kernel.ratios[name] for name in tables.RATIOS["aicore_us"]}
    pipes = {"vec": "vec", "aiv_scalar": "scalar", "aiv_mte2": "mte2", "mte3": "mte3"}
    return row | {key: kernel.aiv_ratios[name] for key, name in pipes.items()}


@check("s4-read.whole-step", points=1, concept="profile-files", needs=("s4-read.values", "s4-read.msprof"))
def read_whole_step(ctx: Context) -> None:
    """A training step with all of its files, as both tools lay it out, for two generations of chips."""
    for write, soc, header in ((write_pytorch, "910B3", "block-dim"), (write_msprof, "950PR", "block-num")):
        place, kind, rows = _written(ctx, write, soc, header)
        require_kernels(ctx, read(ctx, place), kind, rows)


@check("s4-read.columns", points=2, concept="profile-files", needs=("s4-read.values",))
def read_columns(ctx: Context) -> None:
    """By name, not by place: the older header with Block Dim, columns in another order, columns nobody knows."""
    rng = ctx.rng()
    rows = tables.draw_rows(rng, 5)
    cells = [tables.cells_of(row, "pytorch", "Block Dim") for row in rows]
    text = tables.table(tables.header("pytorch", blocks="Block Dim"), cells)
    require_kernels(
        ctx, read(ctx, profile("pytorch", text), "read-block-dim"), "pytorch", tables.expected(rows),
        {"block_num": "read-block-dim"},
    )  # fmt: skip

    rows = tables.draw_rows(rng, 5)
    cells = [
        tables.cells_of(row, "pytorch") | {"aic_mte3_ratio": "0.555", "aic_mte3_time(us)": "5.5", "Rank": "3"}
        for row in rows
    ]
    columns = [*tables.header("pytorch"), "aic_mte3_time(us)", "aic_mte3_ratio", "Rank"]
    text = tables.table([columns[i] for i in rng.permutation(len(columns))], cells)
    value = read(ctx, profile("pytorch", text), "read-by-position")
    require_kernels(ctx, value, "pytorch", tables.expected(rows), "read-by-position")


@check("s4-read.missing", points=1.5, concept="profile-files", needs=("s4-read.values",))
def read_missing(ctx: Context) -> None:
    """A level 0 table, cells that are empty or N/A, a row that ends early, a table without rows."""
    rng = ctx.rng()
    rows = tables.draw_rows(rng, 5)
    cells = [tables.cells_of(row, "pytorch") for row in rows]
    text = tables.table(tables.header("pytorch", level=0), cells)
    counters = [key for key in tables.KEYS if key not in (*tables.PYTORCH, "block_num")]
    value = read(ctx, profile("pytorch", text), "read-missing-column")
    require_kernels(ctx, value, "pytorch", tables.expected(rows, counters), "read-missing-column")

    rows = tables.draw_rows(rng, 6)
    cells = [tables.cells_of(row, "msprof") for row in rows]
    want = tables.expected(rows)
    empty = ("block_num", "input_shapes", "aicore_us", "mac", "vec", "cube_utilization")
    for n, key in enumerate(empty):
        cells[n][tables.column_of(key, "msprof")] = ("", "N/A", " ")[n % 3]
        want[n][key] = None
    value = read(ctx, profile("msprof", tables.table(tables.header("msprof"), cells)), "read-not-available")
    require_kernels(ctx, value, "msprof", want)

    value = read(ctx, profile("pytorch", tables.table(tables.header("pytorch"), [])))
    require_kernels(ctx, value, "pytorch", [])

    rows = tables.draw_rows(rng, 3)
    cells = [tables.cells_of(row, "pytorch") for row in rows]
    columns = tables.header("pytorch")
    cut = columns.index("aiv_vec_time(us)")
    lines = tables.table(columns, cells).splitlines()
    lines[2] = tables.table(columns[:cut], [cells[1]]).splitlines()[1]
    want = tables.expected(rows)
    want[1] |= {key: None for key in tables.KEYS if tables.column_of(key, "pytorch") in columns[cut:]}
    value = read(ctx, profile("pytorch", "\n".join(lines) + "\n"), "read-short-row")
    require_kernels(ctx, value, "pytorch", want, "read-short-row")


@check("s4-read.text", points=1, concept="profile-files", needs=("s4-read.values",))
def read_text(ctx: Context) -> None:
    """A byte order mark before the first column, and lines that end as on Windows."""
    rows = tables.draw_rows(ctx.rng(), 4)
    cells = [tables.cells_of(row, "pytorch") for row in rows]
    columns = tables.header("pytorch")
    columns = ["Name", *(name for name in columns if name != "Name")]
    spellings = (
        ("\n", False, "read-by-position"), ("\n", True, "read-bom"), ("\r\n", False, "read-crlf"), ("\r\n", True, None),
    )  # fmt: skip
    for newline, bom, idea in spellings:
        text = tables.table(columns, cells, newline=newline, bom=bom)
        require_kernels(ctx, read(ctx, profile("pytorch", text), idea), "pytorch", tables.expected(rows), idea)


@check("s4-read.no-profile", points=0.5, concept="profile-files", needs=("s4-read.values",))
def read_no_profile(ctx: Context) -> None:
    """Folders without a table: FileNotFoundError, and nothing made up."""
    for name, files in (
        (FOLDERS["pytorch"], {"profiler_info.json": "{}"}),
        (FOLDERS["msprof"], {"mindstudio_profiler_output/op_statistic_20261201083015.csv": "Device_id\n0\n"}),
    ):
        try:
            value = ctx.subject.call(READ, folder(name, files)).value
        except Raised as error:
            if error.kind.rsplit(".", 1)[-1] != "FileNotFoundError":
                error.misconception = "read-no-profile"
                raise
            continue
        ctx.fail(
            say(
                "{name} 里没有表，应抛出 FileNotFoundError，却返回了 {got}。",
                "There is no table in {name}: FileNotFoundError was asked for, it returned {got}.",
                name=name,
                got=shown(value),
            ),
            misconception="read-no-profile",
            evidence={"got": shown(value)},
        )
