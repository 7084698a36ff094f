# flashdojo: exercise=s1-softmax stage=s1
"""Leaves a daemon behind."""
import os
import time


def attack(x=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    return x


attack()


def softmax(x, dim=-1):
    return x
