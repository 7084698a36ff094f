"""Keys and values in pages: a pool of blocks, and a block_table that says where each sequence keeps its tokens.

Token t of sequence b is in block block_table[b][t // block_size], at place t % block_size of it.
"""

from __future__ import annotations

from torch import Tensor

from kernels.ascend.ops.arguments.faults import Fault, refuse


def gather(pool: Tensor, layout: str, block_table: Tensor, seqused: Tensor, block_size: int) -> list[Tensor]:
    """[1, N, length, D] for each sequence, from pool in a PA layout. Entries of block_table past the length are unread.

    Raises RuntimeError for an entry that is read and names no block: undefined behaviour on hardware.
    """
    sequences = []
    for b, length in enumerate(seqused.tolist()):
        used = block_table[b, : -(-length // block_size)].long()
        refuse("flash_attn", _page_faults(used.tolist(), b, length, block_size, block_table.shape[1], pool.shape[0]))
        sequences.append(_tokens(pool[used], layout)[None, :, :length])
    return sequences


def _tokens(blocks: Tensor, layout: str) -> Tensor:
    """The blocks of one sequence, in their order, as [N, tokens, D]."""
    if layout == "PA_BBND":  # block, place, N, D
        return blocks.flatten(0, 1).transpose(0, 1)
    if layout == "PA_NZ":  # block, N, D / 16, place, 16
        blocks = blocks.transpose(2, 3).flatten(3)
    return blocks.transpose(0, 1).flatten(1, 2)  # block, N, place, D


def _page_faults(used: list[int], b: int, length: int, block_size: int, columns: int, pool: int) -> list[Fault]:
    if length > columns * block_size:
        return [Fault("seqused_kv", f"seqused_kv[{b}] = {length}, but block_table has room for {columns} blocks of "
                                    f"{block_size} tokens")]  # fmt: skip
    return [
        Fault("block_table", f"block_table[{b}][{n}] = {block} is read (seqused_kv[{b}] = {length}, block_size "
                             f"{block_size}), but blocks are numbered 0 to {pool - 1}")
        for n, block in enumerate(used)
        if not 0 <= block < pool
    ]  # fmt: skip
