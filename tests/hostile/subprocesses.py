# flashdojo: exercise=s1-softmax stage=s1
"""Starts programs."""
import multiprocessing
import os
import subprocess


def attack(x=None):
    for start in (
        lambda: subprocess.Popen(["sleep", "60"]), lambda: os.system("sleep 60 &"), lambda: os.posix_spawn("/bin/sleep", ["sleep", "60"], {}),
        lambda: multiprocessing.Process(target=time.sleep, args=(60,)).start(), lambda: os.execv("/bin/sleep", ["sleep", "60"]),
    ):
        try:
            start()
        except Exception:
            pass
    return x


attack()


def softmax(x, dim=-1):
    return x
