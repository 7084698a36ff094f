"""Read a profile: every table of kernels, the steps, what is known about the chip, and how the files agree."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from .find import Found, find
from .kernel import Device, Kernel, Note, Profile, Step
from .problems import BadProfile
from .rows import KernelTable

MAX_KERNELS = 200_000  # about 400 MB of Kernel objects
MAX_JSON_BYTES = 16 * 1024 * 1024  # of the small files beside the tables
METADATA = ("profiler_metadata.json", "emulated.json")
EMULATED = "flashdojo"  # key of our own statement in profiler_metadata.json
INFO = ("device_*/info.json*", "PROF_*/device_*/info.json*")


def stream(path: str | Path) -> Iterator[Kernel]:
    """The kernels at ``path`` one after the other, in a memory that does not grow. BadProfile as with ``read``."""
    found = find(path)
    device = device_of(found)
    for table in found.tables:
        yield from KernelTable(table, device)


def read(path: str | Path, *, max_kernels: int = MAX_KERNELS) -> Profile:
    """The profile at ``path``: an ``*_ascend_pt`` or ``PROF_*`` folder, the output folder in it, a folder that holds
    exactly one of those, or the csv file itself. BadProfile when it cannot be read, with what to do.
    """
    found = find(path)
    device = device_of(found)
    kernels: list[Kernel] = []
    notes: list[Note] = []
    level, header = 0, "none"
    for file in found.tables:
        table = KernelTable(file, device)
        for kernel in table:
            if len(kernels) >= max_kernels:
                raise BadProfile("too-large", file, limit=max_kernels)
            kernels.append(kernel)
        notes += table.notes.values()
        level, header = max(level, table.level), table.block_header
        if table.level and not table.has_pipes:
            notes.append(Note("other-metrics", "no columns of pipes: collect aic_metrics=PipeUtilization", file.name))
    if not kernels:
        raise BadProfile("no-kernels", found.tables[0])
    if not level:
        notes.append(Note("level-0", "names and times only: profile with profiler_level=Level1 for the pipes"))
    if device is None or device.mhz is None or device.cores is None:
        device = _derived(kernels, device)
        kernels = [replace(kernel, device=device) for kernel in kernels] if device else kernels
    steps, told = _steps(found)
    notes += told + _statistic(found, kernels)
    return Profile(
        found.kind, found.root, kernels, steps, device, level, header, notes, _emulated(found), _settings(found)
    )


def device_of(found: Found) -> Device | None:
    """From info.json of the raw data, which msprof writes beside what it measured, and from our own statement."""
    told = (_emulated(found) or {}).get("device")
    said = told if isinstance(told, dict) else {}
    for folder in {found.root, found.output}:
        for pattern in INFO:
            for file in sorted(folder.glob(pattern)):
                info = _json(file)
                devices = info.get("DeviceInfo") if isinstance(info, dict) else None
                if isinstance(devices, list) and devices and isinstance(devices[0], dict):
                    cores, vector = _positive(devices[0], "ai_core_num"), _positive(devices[0], "aiv_num")
                    return Device(
                        int(cores) if cores else None,
                        int(vector) if vector else None,
                        _positive(devices[0], "aic_frequency"),
                        str(said["name"]) if said.get("name") else None,
                        str(said["arch"]) if said.get("arch") else None,
                        _positive(said, "hbm_bytes_per_second"),
                    )
    return None


def _derived(kernels: list[Kernel], known: Device | None) -> Device | None:
    """Clock and cores from the counters: cycles = clock x time x blocks, utilisation = cycles / (clock x cores x time).

    Only where no core ran a second block, which the wave factor of the times would hide.
    """
    for kernel in kernels:
        cycles, time, blocks, used = kernel.aic_cycles, kernel.aicore_us, kernel.block_num, kernel.cube_utilization
        if cycles and time and blocks and used and kernel.duration_us:
            mhz = cycles / time / blocks
            cores = round(cycles * 100 / (mhz * kernel.duration_us * used))
            if blocks <= cores and 500 < mhz < 3000:
                return replace(known or Device(), cores=cores, mhz=round(mhz), vector_cores=2 * cores)
    return known


def _steps(found: Found) -> tuple[list[Step], list[Note]]:
    file = found.output / "step_trace_time.csv"
    if not file.is_file():
        return [], []
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            rows = [{str(key): str(value).strip() for key, value in row.items()} for row in csv.DictReader(text)]
        steps = [
            Step(
                int(float(row["Step"])) if row.get("Step") else None,
                float(row["Computing"]),
                float(row["Free"]),
                float(row.get("Communication") or 0),
                float(row["Stage"]) if row.get("Stage") else None,
            )
            for row in rows
        ]
    except (KeyError, ValueError, csv.Error) as error:
        return [], [Note("step-trace-unreadable", f"{type(error).__name__}: {error}", file.name)]
    return steps, []


def _statistic(found: Found, kernels: list[Kernel]) -> list[Note]:
    """op_statistic counts the same kernels: a table cut between two lines, or edited, shows here."""
    files = sorted(found.output.glob("op_statistic*.csv"))
    if not files:
        return []
    count, total = 0, 0.0
    try:
        for file in files:
            with file.open(encoding="utf-8-sig", newline="") as text:
                for row in csv.DictReader(text):
                    count, total = count + int(row["Count"]), total + float(row["Total Time(us)"])
    except (KeyError, TypeError, ValueError, csv.Error):
        return [Note("statistic-disagrees", "it cannot be read", files[0].name)]
    have = sum(kernel.duration_us for kernel in kernels)
    if count == len(kernels) and abs(total - have) <= 0.002 * count + 1e-6 * total:  # both have three decimals
        return []
    told = f"{count} kernels of {total:.3f} us there, {len(kernels)} of {have:.3f} us in the kernel table"
    return [Note("statistic-disagrees", told, files[0].name)]


def _emulated(found: Found) -> dict[str, Any] | None:
    for folder in (found.root, found.output):
        for name in METADATA:
            content = _json(folder / name)
            if isinstance(content, dict) and isinstance(content.get(EMULATED), dict):
                return content[EMULATED]
    return None


def _settings(found: Found) -> dict[str, str]:
    file = next(iter(sorted(found.root.glob("profiler_info*.json"))), None)
    info = _json(file) if file else None
    if not isinstance(info, dict):
        return {}
    config = info.get("config")
    experimental = config.get("experimental_config") if isinstance(config, dict) else None
    chosen = experimental if isinstance(experimental, dict) else {}
    said = {
        "level": chosen.get("_profiler_level"),
        "metrics": chosen.get("_aic_metrics"),
        "cann": info.get("cann_version"),
        "torch_npu": info.get("torch_npu_version"),
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def _positive(values: dict[str, Any], key: str) -> float | None:
    try:
        value = float(values[key])
    except (KeyError, TypeError, ValueError):
        return None
    return value if 0 < value < float("inf") else None


def _json(file: Path) -> Any:
    """None for what is not there or no JSON: nothing that is needed is kept in such a file."""
    try:
        return json.loads(file.read_text("utf-8-sig")) if file.stat().st_size <= MAX_JSON_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
