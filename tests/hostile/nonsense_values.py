# flashdojo: exercise=s1-softmax stage=s1
"""Returns a function, a module, a type, an object, complex numbers, a set."""
import sys

import torch

things = [print, sys, type, object(), 1j, {1}, b'x', ..., slice(1), lambda: 0, torch.Generator(), torch.float32, torch.device('cpu')]


def softmax(x, dim=-1):
    things.append(things.pop(0))
    return things[0]
