"""The traces in Perfetto's own trace processor: it opens them and its SQL gives the times that were predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.perf import PIPES, Shape, find_soc, schedule_for, timeline
from kernels.profiles import core_trace, read, training_step, write_pytorch, write_trace

pytestmark = pytest.mark.slow  # about four seconds: Chromium and eleven megabytes of WebAssembly

PER_THREAD = """
    select process.name as process, thread.name as thread, count(*) as slices, sum(slice.dur) as ns
    from slice join thread_track on slice.track_id = thread_track.id
    join thread using (utid) join process using (upid) group by 1, 2
"""


def test_time_per_pipe_and_per_stream(open_trace: Callable[[Path], Any], tmp_path: Path) -> None:
    soc = find_soc("910B3")
    shape = Shape(2, 4, 4, 4096, 4096, mask_mode=3)
    events = timeline(soc, shape, schedule_for("cann", soc, shape), tiles=6)
    expected: dict[str, float] = defaultdict(float)
    for event in events:
        expected[event.pipe] += (event.end - event.start) * 1000 / soc.mhz

    opened = open_trace(write_trace(tmp_path / "core.json", core_trace(events, soc.mhz)))
    rows = opened.query(PER_THREAD, "process", "thread", "slices", "ns")
    assert {thread for _, thread, _, _ in rows} == set(PIPES)
    for process, thread, slices, ns in rows:
        assert process.startswith("core0.cubecore0" if thread in ("MTE2", "MTE1", "CUBE", "FIXPIPE") else "core0.vec")
        assert slices == sum(event.pipe == thread for event in events)
        assert ns == pytest.approx(expected[thread], abs=slices)  # each end is rounded to a nanosecond
    stages = opened.query("select distinct extract_arg(arg_set_id, 'args.stage') as stage from slice", "stage")
    assert {stage for [stage] in stages} == {event.stage for event in events}
    lost = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    assert opened.query(lost, "name", "value") == []

    # the same of a whole profile: its kernels lie on one stream of the hardware, its steps on the host's row
    root = write_pytorch(tmp_path, training_step(soc, steps=2, gap_us=0.5))
    opened = open_trace(root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    rows = {(row[0], row[1]): row[2:] for row in opened.query(PER_THREAD, "process", "thread", "slices", "ns")}
    profile = read(root)
    assert rows["Ascend Hardware", "Stream 2"] == [len(profile.kernels), round(profile.duration_us * 1000)]
    assert rows["Overlap Analysis", "Free"][1] == round(1000 * sum(step.free for step in profile.steps))
    assert rows["Python", "Thread 1"] == [2, round(1000 * sum(step.stage or 0 for step in profile.steps))]
    clock = "select distinct value from counter join counter_track on counter.track_id = counter_track.id"
    assert opened.query(clock, "value") == [[soc.mhz]]
    assert opened.query(lost, "name", "value") == []
