# flashdojo: exercise=s1-softmax stage=s1
"""Deep recursion with the guard removed."""
import sys

sys.setrecursionlimit(10**9)


def softmax(x, dim=-1):
    deep = None
    for _ in range(10**6):
        deep = (deep,)
    return hash(deep) + repr(deep).count("(") + softmax(x, dim)
