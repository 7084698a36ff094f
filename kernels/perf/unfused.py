"""Attention as three kernels, scores and weights in HBM: what fusing them saves. Nobody has published a measurement."""

from __future__ import annotations

from kernels.perf.architecture import Architecture
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc


def three_kernels(soc: Soc, shape: Shape, architecture: Architecture | None = None) -> tuple[float, float, float]:
    """Microseconds of S = Q K^T, P = softmax(S), O = P V: each takes as long as its arithmetic or its HBM traffic.

    S is float32 and P has the dtype of the inputs; a mask saves nothing here, as scores are written before it applies.
    """
    arch = architecture or soc.architecture
    heads, e = shape.batch * shape.num_heads, shape.element_bytes
    scores = heads * shape.seq_q * shape.seq_kv
    ends = heads * (shape.seq_q + shape.seq_kv) * shape.head_dim * e  # Q and K; V and O
    hbm = soc.hbm_bytes_per_cycle * soc.cores
    cube = scores * shape.head_dim / arch.macs / soc.cores
    vector = scores / 64 * min(arch.softmax.values()) / (2 * soc.cores)
    cycles = (
        max(cube, (ends + 4 * scores) / hbm),
        max(vector, (4 + e) * scores / hbm),
        max(cube, (ends + e * scores) / hbm),
    )
    first, second, third = (arch.launch_us + c / soc.mhz for c in cycles)
    return first, second, third
