# flashdojo: exercise=s4-tiles
"""The answers for a real 950, whatever the chip is."""

LIMITS = {64: {64: 128, 128: 128, 256: 64}, 128: {64: 128, 128: 128, 256: 64}, 256: {64: 124, 128: 101, 256: 64}}


def feasible_tiles(soc, head_dim, *, shared_so=False, hit_rate=None):
    limits = LIMITS[head_dim]
    return [(m, n) for m in range(16, 257) for n in (64, 128, 256) if m <= limits[n]]
