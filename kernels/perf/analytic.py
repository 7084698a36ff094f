"""The inequalities of upstream's performance document (ops-transformer, flash_attn_perf_analysis), beside the model's.

M = block_q, N = block_kv, D = head_dim; the document's chip is a 950PR with D = 256 and 16-bit elements: 101 bytes per
cycle and core from L2, 31 from HBM, 4096 multiply-adds per cycle, UB of 253,952 bytes, L1 of 512 KiB. There are two
places where the document and the model differ, and the model says why:

* the bandwidth at a hit rate h. The document adds bandwidths (``doc_mix``), but what adds up is time
  (``harmonic_mix``): the vendor's own re-read benchmark takes 398 us, the harmonic mean gives 398, the linear one a
  quarter less.
* the largest M with separate buffers for S and O at N = 128. The document's 102 is 101.95 rounded: 102 rows need
  254,084 bytes of 253,952, 132 too many. 101 fit the formula, and 100 when the two vector cores take equal rows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor

from kernels.perf.l2 import mixed

MACS = 4096
L2_RATE, HBM_RATE = 101.0, 31.0
UB_BYTES, L1_BYTES, L0C_SLOT_BYTES = 253952, 512 * 1024, 64 * 1024


def doc_mix(hit_rate: float, l2: float = L2_RATE, hbm: float = HBM_RATE) -> float:
    """Bytes per cycle as the document counts: the linear mean."""
    return l2 * hit_rate + hbm * (1 - hit_rate)


def harmonic_mix(hit_rate: float, l2: float = L2_RATE, hbm: float = HBM_RATE) -> float:
    """Bytes per cycle when a share comes from each of two places one after the other."""
    return mixed(hit_rate, l2, hbm)


def cube_cycles(m: int, n: int, d: int) -> float:
    """C1 and C2 of one tile."""
    return 2 * m * n * d / MACS


def kv_cycles(n: int, d: int, bandwidth: float, element_bytes: int = 2) -> float:
    """K and V of one tile."""
    return 2 * n * d * element_bytes / bandwidth


def fixpipe_cycles(m: int, n: int, d: int, bandwidth: float) -> float:
    """S and O of one tile, float32, out of L0C."""
    return 4 * (m * n + m * d) / bandwidth


def cube_bound_block_q(hit_rate: float, mix: Callable[[float], float] = doc_mix) -> int:
    """Smallest M at which the Cube takes as long as loading K and V: M > 8192 / bandwidth. 82 at h = 1, 265 at 0."""
    return floor(2 * MACS / mix(hit_rate)) + 1


def required_hit_rate(m: int, *, harmonic: bool = False, l2: float = L2_RATE, hbm: float = HBM_RATE) -> float:
    """Hit rate that makes a tile of M rows Cube bound, 0 to 1; above 1 when none does. 96, 102, 128: .78 .70 .47."""
    needed = 2 * MACS / m
    hit = (1 / hbm - 1 / needed) / (1 / hbm - 1 / l2) if harmonic else (needed - hbm) / (l2 - hbm)
    return max(0.0, hit)


def required_fixpipe_rate(n: int, d: int) -> float:
    """Bytes per cycle into UB above which Fixpipe hides behind the Cube: 8192 * (1/D + 1/N). 96 and 64 at D = 256."""
    return 2 * MACS * (1 / d + 1 / n)


def required_block_kv(fixpipe_rate: float, d: int) -> int:
    """Smallest N for a Fixpipe of this rate. 119 at 101 bytes per cycle and D = 256."""
    return ceil(2 * MACS / (fixpipe_rate - 2 * MACS / d))


def ub_separate(m: int, n: int, d: int) -> int:
    """Bytes of UB with two places each for S, O and P, a 2-byte mask, the accumulator and row statistics."""
    return 7 * m * n + 6 * m * d + 54 * m + 512


def ub_shared(m: int, n: int, d: int) -> int:
    """The same when S and O share their two places."""
    return 4 * m * max(n, d) + 2 * m * n + 2 * m * d + m * n + 54 * m + 512


def l1_use(m: int, n: int, d: int) -> int:
    """Bytes of L1: Q twice, P three times, K or V twice between them."""
    return 4 * m * d + 6 * m * n + 4 * n * d


def l0c_fits(m: int, n: int, d: int) -> bool:
    """S fits in one place of 64 KiB, and O needs at most two passes."""
    return 4 * m * n <= L0C_SLOT_BYTES and ceil(4 * m * d / L0C_SLOT_BYTES) <= 2


def largest_block_q(use: Callable[[int, int, int], int], n: int, d: int, capacity: int) -> int:
    """Largest M for which ``use(M, n, d)`` fits: 101 for ub_separate at N = 128, D = 256; the document has 102."""
    one, two = use(1, n, d), use(2, n, d)
    return (capacity - (2 * one - two)) // (two - one)
