"""What is computed: the size of one attention."""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as short
from typing import ClassVar

DTYPES = {"float16": 2, "bfloat16": 2}  # bytes of an element
SHORT_DTYPES = {"fp16": "float16", "half": "float16", "bf16": "bfloat16"}
MASKS = {"none": 0, "0": 0, "causal": 3, "3": 3}
LONGEST = 1 << 20  # rows, of npu_fusion_attention


class BadShape(ValueError):
    """A shape that the operator refuses or the model does not cover; ``problem`` says which and what to do."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@dataclass(frozen=True)
class Shape:
    """B, N1, N2, S1, S2, D; mask_mode 0 none or 3 causal, bottom-right aligned. Raises BadShape."""

    batch: int
    num_heads: int
    num_kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int = 128
    dtype: str = "float16"
    mask_mode: int = 0

    HEAD_DIMS: ClassVar[tuple[int, ...]] = (64, 128, 256)  # of flash_attn with equal head dims

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", SHORT_DTYPES.get(self.dtype, self.dtype))
        for name in ("batch", "num_heads", "num_kv_heads", "seq_q", "seq_kv", "head_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadShape(f"{name} is {short(value)}: it must be a whole number of at least 1")
        if self.batch >= 65536:
            raise BadShape(f"batch is {self.batch}: the operator takes less than 65,536")
        if self.num_heads % self.num_kv_heads:
            raise BadShape(f"{self.num_heads} query heads on {self.num_kv_heads} kv heads: N1 must be a multiple of N2")
        if max(self.seq_q, self.seq_kv) > LONGEST:
            raise BadShape(f"a sequence of {max(self.seq_q, self.seq_kv)}: the operator takes up to {LONGEST:,}")
        if self.head_dim not in self.HEAD_DIMS:
            dims = ", ".join(map(str, self.HEAD_DIMS))
            raise BadShape(f"head_dim is {self.head_dim}: the operator takes {dims}")
        if self.dtype not in DTYPES:
            raise BadShape(f"dtype {short(self.dtype)}: the operator takes float16 (fp16) and bfloat16 (bf16)")
        if self.mask_mode not in (0, 3):
            raise BadShape(f"mask_mode is {short(self.mask_mode)}: the model covers 0 (none) and 3 (causal)")

    @classmethod
    def parse(cls, text: str, *, dtype: str = "float16", mask: str | int = "none") -> Shape:
        """From "B,N1,N2,S1,S2,D" and the words none or causal. Raises BadShape."""
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 6 or not all(part.isdecimal() and len(part) <= 10 for part in parts):
            raise BadShape(
                f"{short(text)} is no shape: write six numbers B,N1,N2,S1,S2,D such as 1,16,16,4096,4096,128"
            )
        if str(mask) not in MASKS:
            raise BadShape(f"mask {short(mask)}: the model covers none and causal")
        b, n1, n2, s1, s2, d = map(int, parts)
        return cls(b, n1, n2, s1, s2, d, dtype, MASKS[str(mask)])

    @property
    def causal(self) -> bool:
        return self.mask_mode == 3

    @property
    def element_bytes(self) -> int:
        return DTYPES[self.dtype]

    @property
    def flops(self) -> int:
        """Two per multiply-add of QK^T and PV, over visible pairs only."""
        return 4 * self.batch * self.num_heads * self._visible_pairs() * self.head_dim

    def _visible_pairs(self) -> int:
        return causal_pairs(self.seq_q, self.seq_kv) if self.causal else self.seq_q * self.seq_kv


def causal_pairs(seq_q: int, seq_kv: int) -> int:
    """Pairs of a query and a key it sees: the last query row sees every key, the one above it one less."""
    rows = min(seq_q, seq_kv)
    return rows * (2 * seq_kv - rows + 1) // 2
