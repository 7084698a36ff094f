"""Timelines in the Chrome Trace Event format, for chrome://tracing, Perfetto and MindStudio Insight."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .kernel import Kernel
from .problems import BadProfile
from .tables import MODEL_ID, microseconds, step_spans

MAX_BYTES = 512 * 1024 * 1024
PYTHON_PID = 1
HARDWARE, FREQUENCY, OVERLAP = ("Ascend Hardware", 14), ("AI Core Freq", 15), ("Overlap Analysis", 18)
CUBE_PIPES = ("MTE2", "MTE1", "CUBE", "FIXPIPE")


def device_pid(sort_index: int, device_id: int = 0) -> int:
    """As torch_npu numbers the rows of its trace."""
    return PYTHON_PID << 10 | sort_index << 5 | device_id


def kernel_trace(kernels: Sequence[Kernel], origin_ns: int) -> list[dict[str, Any]]:
    """trace_view.json: the kernels on their streams, the clock, what was computing and what free, the steps.

    There is nothing of the host in it (no calls, no flows): nothing is predicted about the host.
    """
    hardware, frequency, overlap = (device_pid(index) for _, index in (HARDWARE, FREQUENCY, OVERLAP))
    events = _process(PYTHON_PID, "Python", "CPU", 0, {PYTHON_PID: f"Thread {PYTHON_PID}"})
    streams = sorted({2 if kernel.stream is None else kernel.stream for kernel in kernels})
    events += _process(hardware, HARDWARE[0], "NPU", HARDWARE[1], {stream: f"Stream {stream}" for stream in streams})
    events += _process(frequency, FREQUENCY[0], "NPU", FREQUENCY[1], {})
    events += _process(overlap, OVERLAP[0], "NPU", OVERLAP[1], {0: "Computing", 3: "Free"})
    for step, (start, end, _) in step_spans(kernels).items():
        if step is not None:
            name = f"ProfilerStep#{step}"
            events.append(_slice(name, PYTHON_PID, PYTHON_PID, origin_ns + start, (end - start) / 1000, cat="cpu_op"))
    reached = None
    for number, kernel in enumerate(kernels):
        start = kernel.start_ns or 0
        stream = 2 if kernel.stream is None else kernel.stream
        args = {
            "Model Id": int(MODEL_ID),
            "Task Type": kernel.core,
            "Physic Stream Id": stream,
            "Task Id": number if kernel.task is None else kernel.task,
            "Batch Id": 0,
            "Subtask Id": int(MODEL_ID),
        }
        begin = origin_ns + start
        events.append(_slice(kernel.name, hardware, stream, begin, kernel.duration_us, args=args))
        events.append(_slice("Computing", overlap, 0, begin, kernel.duration_us))
        if reached is not None and start > reached:
            events.append(_slice("Free", overlap, 3, origin_ns + reached, (start - reached) / 1000))
        reached = max(reached or 0, kernel.end_ns or 0)
    device = kernels[0].device if kernels else None
    if device and device.mhz:
        for at in (kernels[0].start_ns or 0, reached or 0):
            events.append(
                {
                    "name": "AI Core Freq",
                    "pid": frequency,
                    "tid": 0,
                    "ts": microseconds(origin_ns + at),
                    "ph": "C",
                    "args": {"MHz": device.mhz},
                }
            )
    return events


def core_trace(timeline: Iterable[Any], mhz: float, core: int = 0) -> list[dict[str, Any]]:
    """One core of ``kernels.perf.timeline``: a row for every pipe, the cube core's and those of its vector cores.

    Takes events with ``pipe``, ``stage``, ``tile``, ``start``, ``end`` in cycles, which ``mhz`` turns into time.
    """
    cube, vector = 2 * core + 1, 2 * core + 2
    rows = {pipe: (cube, row) for row, pipe in enumerate(CUBE_PIPES, 1)}
    rows |= {pipe: (vector, row) for row, pipe in enumerate(("VMTE2", "VECTOR", "MTE3"), 1)}
    threads = {pid: {tid: pipe for pipe, (owner, tid) in rows.items() if owner == pid} for pid in (cube, vector)}
    events = _process(cube, f"core{core}.cubecore0", "predicted", cube, threads[cube])
    events += _process(vector, f"core{core}.veccore0 (veccore1 in step)", "predicted", vector, threads[vector])
    for event in timeline:
        pid, tid = rows[event.pipe]
        ns = round(event.start * 1000 / mhz)
        args = {"stage": event.stage, "tile": event.tile, "cycles": round(event.end - event.start, 1)}
        length = (round(event.end * 1000 / mhz) - ns) / 1000
        events.append(_slice(f"{event.stage}({event.tile})", pid, tid, ns, length, args=args, cat=event.pipe))
    return events


def write_trace(file: Path | str, events: Sequence[dict[str, Any]]) -> Path:
    """One event on a line, so that two traces can be compared by diff."""
    file = Path(file)
    lines = ",\n".join(json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events)
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8", newline="\n")
    return file


def trace_times(file: Path | str, *, max_bytes: int = MAX_BYTES) -> dict[tuple[str, str], float]:
    """(process, thread) -> microseconds of its slices, of any Chrome trace: trace_view.json, msprof_*.json, ours.

    BadProfile when it is no such trace, or larger than ``max_bytes``: a JSON file has to be read whole.
    """
    file = Path(file)
    if not file.is_file():
        raise BadProfile("missing", file)
    if file.stat().st_size > max_bytes:
        raise BadProfile("too-large-file", file, limit=max_bytes >> 20)
    try:
        content = json.loads(file.read_bytes())
        events = content["traceEvents"] if isinstance(content, dict) else content
        names: dict[tuple[str, Any, Any], str] = {}
        for event in events:
            if event.get("ph") == "M" and event["name"] in ("process_name", "thread_name"):
                thread = event.get("tid") if event["name"] == "thread_name" else None
                names[event["name"], event["pid"], thread] = str(event["args"]["name"])
        times: dict[tuple[str, str], float] = defaultdict(float)
        for event in events:
            if event.get("ph") == "X":
                process, thread = event["pid"], event["tid"]
                row = (
                    names.get(("process_name", process, None), str(process)),
                    names.get(("thread_name", process, thread), str(thread)),
                )
                times[row] += float(event["dur"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadProfile("not-a-trace", file) from None
    return dict(times)


def _slice(name: str, pid: int, tid: int, ns: int, us: float, **more: Any) -> dict[str, Any]:
    event = {"name": name, "pid": pid, "tid": tid, "ts": microseconds(ns), "dur": round(us, 3), "ph": "X", "args": {}}
    return event | more


def _process(pid: int, name: str, label: str, sort_index: int, threads: dict[int, str]) -> list[dict[str, Any]]:
    """The rows' names; Chrome's metadata events, one fact each."""

    def event(what: str, key: str, value: Any, tid: int = 0) -> dict[str, Any]:
        return {"name": what, "pid": pid, "tid": tid, "ph": "M", "args": {key: value}}

    events = [event("process_name", "name", name), event("process_labels", "labels", label)]
    events.append(event("process_sort_index", "sort_index", sort_index))
    for tid, thread in threads.items():
        events.append(event("thread_name", "name", thread, tid))
        events.append(event("thread_sort_index", "sort_index", tid, tid))
    return events
