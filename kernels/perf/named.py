"""The schedules of kernels that were measured, by name: inputs of the model, from what upstream says of its kernels.

v0 to v8 are the steps of flash_attn_lite (cann-samples), example and minimal the two samples of ops-transformer, all on
Ascend 950; cann is torch_npu's fused operator, pto and pto-jit are pto-isa's, tilelang and pto-dsl their projects' on
Atlas A2 and A3. Four details were chosen after a first prediction missed, see docs/en/perf-model.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc

_ONE = Schedule(preload=0, q_slots=1, k_slots=1, v_slots=1, p_slots=1, s_slots=1, o_slots=1, l0c_slots=1, ub_p_slots=1)
_V2 = replace(  # serial: the cube core waits for Fixpipe, then for the vector cores
    _ONE, barrier=True, shared_so=True, l0_slots=1, ub_input_slots=1, v_load="p", vector_code="unfused"
)
_V3 = Schedule(  # two tiles at a time between the cores
    preload=0, group=2, barrier=True, q_slots=1, k_slots=2, v_slots=2, p_slots=2, s_slots=2, o_slots=2, ub_p_slots=2,
    l0_slots=1, l0c_slots=1, v_load="p", vector_code="unfused",
)  # fmt: skip
_V4 = replace(_V3, barrier=False, l0_slots=2, l0c_slots=2)
_V5 = replace(_V4, v_load="c1", q_slots=2)
_V8_UNFUSED = replace(_V5, group=0, preload=3, p_slots=4, v_slots=4, l0c_slots=4)

_GM = Schedule(s_path="gm", p_path="gm", o_path="gm", l0c_slots=2, vector_code="cann")
_CANN = replace(_GM, block_kv=1024, preload=1, p_slots=2, tail_columns=512)
_PTO = replace(_GM, block_kv=512, preload=4, s_slots=8, o_slots=8, vector_code="pto")

SCHEDULES: Mapping[str, Schedule] = MappingProxyType(
    {
        "v0": replace(_V2, s_path="gm", p_path="gm", o_path="gm"),
        "v1": replace(_V2, p_path="gm"),
        "v2": _V2,
        "v3": _V3,
        "v4": _V4,
        "v5": _V5,
        "v8": replace(_V8_UNFUSED, vector_code="fused"),
        "v8-unfused": _V8_UNFUSED,
        "example": Schedule(vector_code="lanes", split="even"),
        "minimal": replace(_ONE, vector_code="lanes"),
        "cann": _CANN,
        "pto": _PTO,
        "pto-jit": replace(_PTO, block_kv=256),
        "tilelang": replace(
            _GM, preload=0, group=8, s_slots=8, o_slots=8, s_bytes=2, o_bytes=2, k_slots=1, v_slots=1, p_slots=1
        ),
        "pto-dsl": replace(_V2, s_path="gm", p_path="gm", o_path="gm", l0c_slots=2, vector_code="cann"),
    }
)


def schedule_for(name: str, soc: Soc, shape: Shape) -> Schedule:
    """A named schedule as its kernel would choose it for a shape: cann and pto look at the lengths. KeyError."""
    schedule = SCHEDULES[name]
    if name == "cann":
        few = shape.batch * shape.num_heads * -(-shape.seq_q // 64) < 2 * soc.cores
        columns = -(-min(1024, shape.seq_kv) // 16) * 16
        schedule = replace(schedule, block_kv=columns, ub_input_slots=1 if shape.causal else 2)
        return replace(schedule, block_q=64, split="even") if few else schedule  # long keys, few rows: keys are split
    if name == "pto":
        return replace(schedule, block_kv=256 if shape.seq_kv <= 1024 else 512 if shape.seq_kv <= 8192 else 1024)
    if name == "tilelang" and shape.head_dim > 128:  # the full tile does not fit
        return replace(schedule, block_q=128 if shape.head_dim <= 256 else 64, vector_chunk=4096)
    return schedule
