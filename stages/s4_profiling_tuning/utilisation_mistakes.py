"""The utilisation of a profile, computed rightly and as common mistakes have it; and kernels to compute it of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tables import KEYS as COLUMNS

Kernel = dict[str, Any]
AIC, AIV = ("mac", "mte1", "mte2", "fixpipe"), ("vec", "aiv_mte2", "mte3")
PIPES = (*AIC, *AIV)
ATTENTION = ("FlashAttentionScore", "FlashAttentionScoreGrad")
DECOY = "FusedInferAttentionScore"  # attention too, but not one of the two kernels that are asked for
KEYS = ("total_us", *PIPES, "occupancy", "attention_share", "tflops", "mfu")


@dataclass(frozen=True)
class Run:
    """The arguments of ``utilisation``."""

    kernels: Sequence[Kernel]
    soc: dict[str, float]

    @property
    def attention(self) -> list[Kernel]:
        return [kernel for kernel in self.kernels if kernel["type"] in ATTENTION]


def ratio(top: float, bottom: float) -> float | None:
    return top / bottom if bottom else None


def time_of(pipe: str) -> str:
    return "aicore_us" if pipe in AIC else "aiv_us"


def share(run: Run, pipe: str) -> float | None:
    rows = [k for k in run.kernels if k[pipe] is not None and k[time_of(pipe)] is not None]
    return ratio(sum(k[pipe] * k[time_of(pipe)] for k in rows), sum(k[time_of(pipe)] for k in rows))


def occupancy(run: Run) -> float | None:
    rows = [k for k in run.kernels if k["aicore_us"] is not None and k["block_num"] is not None]
    cores = run.soc["cores"]
    busy = sum(k["aicore_us"] * min(k["block_num"], cores) for k in rows)
    return ratio(busy, cores * sum(k["duration_us"] for k in rows))


def mask_slot(kernel: Kernel) -> int:
    """Where atten_mask is among the inputs: a Grad has dy before it."""
    return 7 if kernel["type"].endswith("Grad") else 6


def flops(
    kernel: Kernel,
    *,
    visible: Callable[[int, int], float] | None = None,
    grad: float = 2.5,
    slot: Callable[[Kernel], int] = mask_slot,
) -> float:
    """``visible(S1, S2)``: the pairs that a mask leaves."""
    shapes = kernel["input_shapes"]
    (batch, heads, seq_q, head_dim), seq_kv = shapes[0], shapes[1][2]
    pairs: float = seq_q * seq_kv
    if any(shapes[slot(kernel) : slot(kernel) + 1]):
        pairs = (visible or causal)(seq_q, seq_kv)
    return 4.0 * batch * heads * head_dim * pairs * (grad if kernel["type"].endswith("Grad") else 1)


def causal(seq_q: int, seq_kv: int) -> float:
    return sum(min(seq_kv, max(0, i + seq_kv - seq_q + 1)) for i in range(seq_q))


def peak(run: Run) -> float:
    """TFLOPS."""
    return run.soc["cores"] * run.soc["mhz"] * 8192 / 1e6


def tflops(run: Run, of: Callable[[Kernel], float] = flops) -> float | None:
    return ratio(sum(map(of, run.attention)) / 1e6, sum(k["duration_us"] for k in run.attention))


def right(run: Run) -> dict[str, float | None]:
    rate, total = tflops(run), sum(k["duration_us"] for k in run.kernels)
    return {
        "total_us": total,
        **{pipe: share(run, pipe) for pipe in PIPES},
        "occupancy": occupancy(run),
        "attention_share": ratio(sum(k["duration_us"] for k in run.attention), total),
        "tflops": rate,
        "mfu": rate / peak(run) if rate is not None else None,
    }


# ------------------------------------------------------------------------------------------------------------ mistakes
def _mean(run: Run, pipe: str) -> float | None:
    values = [k[pipe] for k in run.kernels if k[pipe] is not None]
    return ratio(sum(values), len(values))


def _by_duration(run: Run, pipe: str) -> float | None:
    rows = [k for k in run.kernels if k[pipe] is not None]
    return ratio(sum(k[pipe] * k["duration_us"] for k in rows), sum(k["duration_us"] for k in rows))


def _of_everything(run: Run, pipe: str) -> float | None:
    return ratio(
        sum((k[pipe] or 0) * k["duration_us"] for k in run.kernels), sum(k["duration_us"] for k in run.kernels)
    )


def _busy_of_duration(run: Run, pipe: str) -> float | None:
    rows = [k for k in run.kernels if k[pipe] is not None]
    return ratio(sum(k[pipe] * k[time_of(pipe)] for k in rows), sum(k["duration_us"] for k in rows))


def _busy_of_all_durations(run: Run, pipe: str) -> float | None:
    return ratio(
        sum((k[pipe] or 0) * (k[time_of(pipe)] or 0) for k in run.kernels), sum(k["duration_us"] for k in run.kernels)
    )


def _mean_with_zeros(run: Run, pipe: str) -> float | None:
    return ratio(sum(k[pipe] or 0 for k in run.kernels), len(run.kernels))


def _aicore_for_all(run: Run, pipe: str) -> float | None:
    rows = [k for k in run.kernels if k[pipe] is not None and k["aicore_us"] is not None]
    return ratio(sum(k[pipe] * k["aicore_us"] for k in rows), sum(k["aicore_us"] for k in rows))


def _shares(of: Callable[[Run, str], float | None]) -> Callable[[Run], dict[str, float | None]]:
    return lambda run: {pipe: of(run, pipe) for pipe in PIPES}


SHARES: list[tuple[str, Callable[[Run], Any]]] = [
    ("share-unweighted", _shares(_mean)),
    ("share-unweighted", _shares(_mean_with_zeros)),
    ("share-by-duration", _shares(_by_duration)),
    ("share-by-duration", _shares(_busy_of_duration)),
    ("share-missing-as-zero", _shares(_of_everything)),
    ("share-missing-as-zero", _shares(_busy_of_all_durations)),
    ("share-wrong-core", _shares(_aicore_for_all)),
    ("share-percent", lambda run: {pipe: value and 100 * value for pipe, value in _shares(share)(run).items()}),
]


def share_by_part_of_name(run: Run) -> float | None:
    rows = [k for k in run.kernels if "Attention" in k["type"]]
    return ratio(sum(k["duration_us"] for k in rows), sum(k["duration_us"] for k in run.kernels))


def _unscaled(run: Run) -> float | None:
    rows = [k for k in run.kernels if k["aicore_us"] is not None]
    return ratio(sum(k["aicore_us"] for k in rows), sum(k["duration_us"] for k in rows))


def _unbounded(run: Run) -> float | None:
    rows = [k for k in run.kernels if k["aicore_us"] is not None and k["block_num"] is not None]
    busy = sum(k["aicore_us"] * k["block_num"] for k in rows)
    return ratio(busy, run.soc["cores"] * sum(k["duration_us"] for k in rows))


def _times_mac(run: Run) -> float | None:
    rows = [k for k in run.kernels if k["aicore_us"] is not None and k["block_num"] is not None]
    cores = run.soc["cores"]
    busy = sum(k["aicore_us"] * (k["mac"] or 0) * min(k["block_num"], cores) for k in rows)
    return ratio(busy, cores * sum(k["duration_us"] for k in rows))


def _over_all(run: Run) -> float | None:
    cores = run.soc["cores"]
    busy = sum((k["aicore_us"] or 0) * min(k["block_num"] or 0, cores) for k in run.kernels)
    return ratio(busy, cores * sum(k["duration_us"] for k in run.kernels))


def _column_mean(run: Run) -> float | None:
    values = [k["cube_utilization"] for k in run.kernels if k["cube_utilization"] is not None]
    return ratio(sum(values) / 100, len(values))


OCCUPANCY: list[tuple[str, Callable[[Run], Any]]] = [
    ("occupancy-cores-forgotten", _unscaled),
    ("occupancy-over-one", _unbounded),
    ("occupancy-is-not-mac", _times_mac),
    ("occupancy-is-not-mac", lambda run: share(run, "mac")),
    ("share-missing-as-zero", _over_all),
    ("share-unweighted", _column_mean),
    ("share-percent", lambda run: (occupancy(run) or 0) * 100),
]


def _rate(**options: Any) -> Callable[[Run], float | None]:
    return lambda run: tflops(run, lambda kernel: flops(kernel, **options))


def _scaled(factor: float) -> Callable[[Run], float | None]:
    return lambda run: (tflops(run) or 0) * factor


def _kv_heads(kernel: Kernel) -> float:
    return flops(kernel) * kernel["input_shapes"][1][1] / kernel["input_shapes"][0][1]


def _forward_only(run: Run) -> float | None:
    rows = [k for k in run.attention if not k["type"].endswith("Grad")]
    return ratio(sum(map(flops, rows)) / 1e6, sum(k["duration_us"] for k in rows))


def _mean_of_rates(run: Run) -> float | None:
    rates = [flops(k) / k["duration_us"] / 1e6 for k in run.attention]
    return ratio(sum(rates), len(rates))


RATE: list[tuple[str, Callable[[Run], Any]]] = [
    ("flops-mask-ignored", _rate(visible=lambda s1, s2: s1 * s2)),
    ("flops-mask-half", _rate(visible=lambda s1, s2: s1 * s2 / 2)),
    ("flops-mask-half", _rate(visible=lambda s1, s2: s1 * (s1 + 1) / 2)),
    ("flops-mask-half", _rate(visible=lambda s1, s2: sum(min(s2, i + 1) for i in range(s1)))),
    ("flops-mask-half", _rate(visible=lambda s1, s2: sum(min(s2, max(0, i + s2 - s1)) for i in range(s1)))),
    ("flops-mask-slot", _rate(slot=lambda kernel: 6)),
    ("flops-mask-slot", _rate(slot=lambda kernel: 7)),
    ("flops-backward", _rate(grad=1)),
    ("flops-backward", _rate(grad=2)),
    ("flops-backward", _rate(grad=3.5)),
    ("flops-backward", _forward_only),
    ("flops-kv-heads", lambda run: tflops(run, _kv_heads)),
    ("flops-half-counted", _scaled(0.5)),
    ("flops-unit", _scaled(1e3)),
    ("flops-unit", _scaled(1e6)),
    ("flops-unit", _scaled(1e-3)),
    ("flops-unit", _scaled(1e-6)),
    ("share-unweighted", _mean_of_rates),
]


# -------------------------------------------------------------------------------------------------------------- kernels
def draw(rng: np.random.Generator, types: Sequence[str], *, gaps: bool = False) -> Run:
    """Kernels of these types, long and short ones, on a chip that may have fewer cores than a kernel has blocks.
    With ``gaps`` some have no counters, as in a table that was cut off."""
    cores, mhz = ((20, 1800), (24, 1850), (32, 1650), (20, 1500), (36, 1800))[int(rng.integers(5))]
    kernels = []
    for n, kind in enumerate(types):
        duration = float(f"{10 ** rng.uniform(1, 3):.3f}")
        kernel: Kernel = dict.fromkeys(COLUMNS) | {"name": f"{kind}_{n}", "type": kind, "duration_us": duration}
        kernel["start_us"] = 1000.0 * n
        kernel["block_num"] = int(rng.integers(cores // 3, 2 * cores))
        kernel["core"] = (
            "MIX_AIC" if kind in (*ATTENTION, DECOY) else "AI_CORE" if kind == "MatMulV3" else "AI_VECTOR_CORE"
        )
        if kind in (*ATTENTION, DECOY):  # every other one of a kind has a mask
            kernel["input_shapes"] = _shapes(rng, kind, masked=list(types[:n]).count(kind) % 2 == 1)
        if not (gaps and n % 3 == 2):
            _count(rng, kernel, cores)
        kernels.append(kernel)
    return Run(kernels, {"cores": cores, "mhz": mhz})


def _count(rng: np.random.Generator, kernel: Kernel, cores: int) -> None:
    for time, pipes, idle in (
        ("aicore_us", (*AIC, "scalar"), "AI_VECTOR_CORE"),
        ("aiv_us", (*AIV, "aiv_scalar"), "AI_CORE"),
    ):
        if kernel["core"] != idle:
            kernel[time] = float(f"{kernel['duration_us'] * rng.uniform(0.5, 0.97):.3f}")
            kernel |= {pipe: float(f"{rng.uniform(0.05, 0.95):.3f}") for pipe in pipes}
    if kernel["aicore_us"] is not None:
        busy = kernel["aicore_us"] * min(kernel["block_num"], cores)
        kernel["cube_utilization"] = float(f"{100 * busy / cores / kernel['duration_us']:.3f}")


def _shapes(rng: np.random.Generator, kind: str, masked: bool) -> list[list[int]]:
    batch, group, kv_heads = (int(x) for x in rng.integers([1, 2, 1], [4, 5, 4]))
    seq_q, seq_kv = (int(x) for x in rng.choice([192, 320, 448, 576, 704, 832], 2, replace=False))
    head_dim = int(rng.choice([64, 128]))
    kv = [batch, kv_heads, seq_kv, head_dim]
    query, mask = [batch, group * kv_heads, seq_q, head_dim], [2048, 2048] if masked else []
    if kind != "FlashAttentionScoreGrad":
        return [query, kv, kv, [], [], [], mask]
    return [query, kv, kv, query, [], [], [], mask, [*query[:3], 8], [*query[:3], 8], [], query]
