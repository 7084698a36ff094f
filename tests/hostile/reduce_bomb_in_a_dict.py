# flashdojo: exercise=s1-softmax stage=s1
"""Bombs as keys and as numbers."""
import os


class Bomb(str):
    def __reduce_ex__(self, protocol):
        return os.system, ('touch /tmp/flashdojo-bomb',)

    def __hash__(self):
        while True:
            pass


class Number(float):
    def __float__(self):
        while True:
            pass

    __index__ = __int__ = __repr__ = __str__ = __float__


def softmax(x, dim=-1):
    return {'a': Number(1.0), 'b': Bomb('x')}
