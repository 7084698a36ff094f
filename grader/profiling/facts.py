"""The numbers of a profile's page, from the profile alone: how long, on what, how much of the chip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from kernels.perf import Soc
from kernels.perf.shape import causal_pairs
from kernels.perf.socs import peak_tflops as peak_of
from kernels.profiles import Device, Kernel, Profile
from kernels.profiles.kernel import Shapes
from kernels.profiles.training import BACKWARD_WORK

FORWARD, BACKWARD = "forward", "backward"
FORWARDS = {FORWARD: 1.0, BACKWARD: BACKWARD_WORK}  # arithmetic in forward passes: two matrix products, and five


@dataclass(frozen=True)
class TypeRow:
    """All kernels of one type. ``share``: of the kernels' time."""

    type: str
    core: str | None
    count: int
    total_us: float
    mean_us: float
    longest_us: float
    share: float


def with_chip(profile: Profile, soc: Soc | None) -> Profile:
    """The profile with what the chip's table knows and its files do not say."""
    if soc is None:
        return profile
    known, table = profile.device or Device(), vars(Device.of(soc))
    device = replace(known, **{name: table[name] for name, value in vars(known).items() if value is None})
    return replace(profile, device=device, kernels=[replace(kernel, device=device) for kernel in profile.kernels])


def by_type(kernels: Sequence[Kernel]) -> list[TypeRow]:
    """Longest in total first."""
    groups: dict[tuple[str, str | None], list[float]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.type, kernel.core), []).append(kernel.duration_us)
    whole = sum(map(sum, groups.values())) or 1.0
    rows = [
        TypeRow(name, core, len(times), sum(times), sum(times) / len(times), max(times), sum(times) / whole)
        for (name, core), times in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.total_us)


def attention_pass(kernel: Kernel) -> str | None:
    """FORWARD or BACKWARD of a fused attention, whose types are FlashAttentionScore, FlashAttentionScoreGrad,
    FusedInferAttentionScore, PromptFlashAttention and the like; None for every other kernel."""
    name = kernel.type.casefold()
    if "flashatt" not in name and "inferattention" not in name:
        return None
    return BACKWARD if "grad" in name else FORWARD


def span_us(kernels: Iterable[Kernel]) -> tuple[float, float] | None:
    """From the first start to the last end, and how long of it at least one kernel ran. None without times."""
    spans = sorted((k.start_ns, k.end_ns) for k in kernels if k.start_ns is not None and k.end_ns is not None)
    if not spans:
        return None
    busy, reached = 0, spans[0][0]
    for start, end in spans:
        busy += max(0, end - max(start, reached))
        reached = max(reached, end)
    return (reached - spans[0][0]) / 1000, busy / 1000


def flops(kernel: Kernel) -> float | None:
    """Two per multiply-add, from the shapes, of attention and of matrix products; None where they do not tell.

    A square mask counts as causal, for which the visible pairs are counted; the backward pass is BACKWARD_WORK
    forward passes.
    """
    shapes = kernel.input_shapes
    if not shapes or len(shapes) < 2 or shapes[0] is None or shapes[1] is None:
        return None
    kind = attention_pass(kernel)
    if kind is not None:
        once = _attention(shapes[0], shapes[1], shapes[3:])
        return None if once is None else FORWARDS[kind] * once
    if "MatMul" in kernel.type and kernel.output_shapes and kernel.output_shapes[0] is not None:
        return _matmul(shapes[0], shapes[1], kernel.output_shapes[0])
    return None


def _attention(q: Sequence[int], k: Sequence[int], others: Shapes) -> float | None:
    """BNSD, BSND, BSH or SBH: the longer of the two axes is the sequence (packed layouts do not tell)."""
    if len(q) != len(k) or len(q) not in (3, 4) or not all(q) or not all(k):
        return None
    axis = max((len(q) - 3, len(q) - 2), key=lambda place: (q[place] * k[place], place))
    seq_q, seq_kv = q[axis], k[axis]
    pairs = seq_q * seq_kv
    if any(shape is not None and len(shape) == 2 and shape[0] == shape[1] for shape in others):
        pairs = causal_pairs(seq_q, seq_kv)
    return 4.0 * prod(q) / seq_q * pairs


def _matmul(one: Sequence[int], other: Sequence[int], out: Sequence[int]) -> float | None:
    """m x k and k x n, either of them transposed, a batch in front or not: the sizes alone give k."""
    if min(len(one), len(other), len(out)) < 2 or not all(out):
        return None
    batch = prod(out[:-2]) if len(other) > 2 else 1
    return 2.0 * prod(out) * (prod(one) * prod(other) / prod(out) / batch) ** 0.5


def peak_tflops(device: Device | None) -> float | None:
    """Of the Cube in 16 bits; None where the profile does not say how many cores and how fast."""
    if device is None or not device.cores or not device.mhz:
        return None
    return peak_of(device.cores, device.mhz)
