# flashdojo: exercise=s1-softmax stage=s1
"""Leaves a file wherever it can."""
import os
import sys
import tempfile


def attack(x=None):
    for place in (".", "..", "/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), tempfile.gettempdir(), "/etc", "/usr/lib", sys.prefix, os.path.join(sys.prefix, "..")):
        try:
            with open(os.path.join(place, "flashdojo-was-here"), "w") as file:
                file.write("a hostile submission wrote this")
        except OSError:
            pass
    return x


attack()


def softmax(x, dim=-1):
    return x
