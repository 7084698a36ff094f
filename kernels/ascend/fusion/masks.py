"""sparse_mode: which keys a query sees, as a band along the diagonal, a prefix, and an explicit mask.

| sparse_mode | seen | atten_mask |
|---|---|---|
| 0 | -pre_tockens <= j - i <= next_tockens, counted from the top left corner, and not masked | whole |
| 1 | not masked | whole |
| 2 | j <= i, top left | (2048, 2048) |
| 3 | j <= i + Skv - Sq, bottom right | (2048, 2048) |
| 4 | the band of pre_tockens and next_tockens, bottom right | (2048, 2048) |
| 5 | not masked; the mask is that of 6, written out | whole |
| 6 | as 3, and the first prefix[b] keys | (3072, 2048) |
| 7, 8 (TND) | as 3, the last sequence as 4; as 2, the first sequence as 4 | (2048, 2048) |

True means masked. Without atten_mask every key is seen, whatever sparse_mode says.
(Source: torch_npu-npu_fusion_attention.md, sparse_mode and its notes.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.tiles import Band

WHOLE_MASK = (0, 1, 5)
COMPRESSED = {2: (2048, 2048), 3: (2048, 2048), 4: (2048, 2048), 6: (3072, 2048), 7: (2048, 2048), 8: (2048, 2048)}


@dataclass(frozen=True)
class Visibility:
    """What the queries of one group of sequences of equal length see."""

    band: Band
    prefix: Sequence[int] = ()  # one per batch: keys before it are seen whatever the band says
    masked: Tensor | None = None  # bool, [1 or B, 1 or N, Sq, Skv]

    def columns(self, rows: slice, seq_kv: int) -> range:
        """The keys that some query of rows may see."""
        seen = self.band.columns(rows, seq_kv)
        longest = min(max(self.prefix, default=0), seq_kv)
        if not longest:
            return seen
        return range(max(longest, seen.stop if seen else 0))

    def hidden(self, rows: slice, cols: slice, device: torch.device) -> Tensor | None:
        """bool [1 or B, 1 or N, rows, cols], or None when every query of rows sees every key of cols."""
        hidden = None
        if self.band.cuts(rows, cols):
            query = torch.arange(rows.start, rows.stop, device=device)[:, None]
            key = torch.arange(cols.start, cols.stop, device=device)
            hidden = ((key < query + self.band.lowest) | (key > query + self.band.highest))[None, None]
            if self.prefix:
                lengths = torch.tensor(self.prefix, device=device)[:, None, None, None]
                hidden = hidden & (key >= lengths)
        if self.masked is not None:
            masked = self.masked[..., rows, cols]
            hidden = masked if hidden is None else hidden | masked
        return hidden


def visibilities(
    lengths: Sequence[tuple[int, int]], sparse_mode: int, atten_mask: Tensor | None,
    pre_tockens: int, next_tockens: int, prefix: Sequence[int] | None,
) -> list[Visibility]:  # fmt: skip
    """One for each (query length, key length); atten_mask is already known to fit sparse_mode."""
    if atten_mask is None:
        return [Visibility(_everything(*length)) for length in lengths]
    result = []
    for index, (seq_q, seq_kv) in enumerate(lengths):
        everything, corner = _everything(seq_q, seq_kv), seq_kv - seq_q
        if sparse_mode in WHOLE_MASK:
            masked = atten_mask.bool()
            masked = masked[(None,) * (4 - masked.dim())][..., :seq_q, :seq_kv]
            band = Band(-pre_tockens, next_tockens) if sparse_mode == 0 else everything
            result.append(Visibility(band, masked=masked))
        elif sparse_mode == 4 or (sparse_mode, index) in ((7, len(lengths) - 1), (8, 0)):
            result.append(Visibility(Band(corner - pre_tockens, corner + next_tockens)))
        elif sparse_mode in (2, 8):
            result.append(Visibility(Band(everything.lowest, 0)))
        else:
            own = (prefix or ())[index : index + 1] if len(lengths) > 1 else tuple(prefix or ())
            result.append(Visibility(Band(everything.lowest, corner), own if sparse_mode == 6 else ()))
    return result


def _everything(seq_q: int, seq_kv: int) -> Band:
    return Band(-seq_q, seq_kv)
