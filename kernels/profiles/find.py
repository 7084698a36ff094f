"""Where the tables of a profile are, whichever of its folders was given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .problems import BadProfile

OUTPUT, MSPROF_OUTPUT = "ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output"
TABLES = {"pytorch": "kernel_details*.csv", "msprof": "op_summary*.csv"}
ANALYSE = 'python -c "from torch_npu.profiler.profiler import analyse; analyse(PATH)"'
EXPORT = "msprof --export=on --output=PATH"
# marks of other tools: (pattern, tool, what to do instead)
OTHERS = (
    ("OPPROF_*", "msprof op", "profile the whole program with msprof or torch_npu.profiler"),
    ("OpBasicInfo*.csv", "msprof op", "profile the whole program with msprof or torch_npu.profiler"),
    ("*.pt.trace.json*", "torch.profiler without torch_npu", "use torch_npu.profiler with ProfilerActivity.NPU"),
    ("*.nsys-rep", "NVIDIA Nsight Systems", "profile on an NPU"),
    ("*.ncu-rep", "NVIDIA Nsight Compute", "profile on an NPU"),
    ("*.xplane.pb", "the JAX/TensorFlow profiler", "profile on an NPU"),
)
DATABASES = ("ascend_pytorch_profiler*.db", "analysis.db", "msprof_*.db")


@dataclass(frozen=True)
class Found:
    """``root``: X_ascend_pt or PROF_* (or what stands in for it); ``output``: the folder of the tables."""

    kind: str
    root: Path
    output: Path
    tables: list[Path]


def find(path: str | Path) -> Found:
    """The tables at ``path``: a profile folder, its output folder, a parent of exactly one profile, or a csv file."""
    path = Path(path)
    try:
        if path.is_file():
            return _file(path)
        if not path.is_dir():
            raise BadProfile("missing", path)
        if not any(path.iterdir()):
            raise BadProfile("empty-folder", path)
        found = _folder(path)
        if found:
            return found
        inside = [child for child in sorted(path.iterdir()) if child.is_dir() and _looks_like_profile(child)]
        if len(inside) > 1:
            raise BadProfile("several", path, names=", ".join(child.name for child in inside[:5]))
        found = _folder(inside[0]) if inside else None
        if found:
            return found
        raise _no_profile(path)
    except PermissionError as error:
        raise BadProfile("not-text", path, detail=f"it may not be read ({error.strerror})") from None


def _file(path: Path) -> Found:
    if path.suffix.casefold() != ".csv":
        for pattern, tool, instead in OTHERS:
            if path.match(pattern):
                raise BadProfile("other-tool", path, tool=tool, instead=instead)
        raise BadProfile("not-a-profile", path)
    kind = "msprof" if path.name.startswith("op_summary") else "pytorch"
    output = path.parent
    root = output.parent if output.name in (OUTPUT, MSPROF_OUTPUT) else output
    return Found(kind, root, output, [path])


def _folder(path: Path) -> Found | None:
    for kind, name, ending in (("pytorch", OUTPUT, "_ascend_pt"), ("msprof", MSPROF_OUTPUT, "")):
        if (path / name).is_dir():
            tables = _tables(path / name, kind)
            if tables:
                return Found(kind, path, path / name, tables)
            _refuse_database(path / name, kind)
            raise BadProfile("half-written", path, missing=f"{name}/{TABLES[kind]}")
        tables = _tables(path, kind)
        if tables:
            return Found(kind, path.parent if path.name == name else path, path, tables)
        if path.name == name:
            _refuse_database(path, kind)
            raise BadProfile("half-written", path, missing=TABLES[kind])
        if ending and path.name.endswith(ending):
            _refuse_database(path, kind)
            raise BadProfile("not-parsed", path, command=ANALYSE.replace("PATH", repr(str(path))))
    if path.name.startswith("PROF_"):
        _refuse_database(path, "msprof")
        raise BadProfile("not-parsed", path, command=EXPORT.replace("PATH", str(path)))
    return None


def _tables(folder: Path, kind: str) -> list[Path]:
    """Large op_summary tables are written in slices; their names sort as they follow each other."""
    return sorted(file for file in folder.glob(TABLES[kind]) if file.is_file())


def _refuse_database(folder: Path, kind: str) -> None:
    if any(next(folder.glob(pattern), None) for pattern in DATABASES):
        command = "export_type=ExportType.Text" if kind == "pytorch" else "msprof --export=on --type=text --output=..."
        raise BadProfile("database-only", folder, command=command)


def _looks_like_profile(folder: Path) -> bool:
    names = (OUTPUT, MSPROF_OUTPUT)
    return (
        folder.name in names
        or folder.name.endswith("_ascend_pt")
        or folder.name.startswith("PROF_")
        or any((folder / name).is_dir() for name in names)
        or any(_tables(folder, kind) for kind in TABLES)
    )


def _no_profile(path: Path) -> BadProfile:
    for pattern, tool, instead in OTHERS:
        if path.match(pattern) or next(path.glob(pattern), None):
            return BadProfile("other-tool", path, tool=tool, instead=instead)
    return BadProfile("not-a-profile", path)
