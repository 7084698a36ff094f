# flashdojo: exercise=all stage=s1
"""SIGSTOP to itself: not dead, not alive."""
import os
import signal


def attack(x=None):
    os.kill(os.getpid(), signal.SIGSTOP)
    return x


attack()


def softmax(x, dim=-1):
    return x
