# flashdojo: exercise=all stage=s1
"""Sleeps, with every signal blocked."""
import signal
import time


def attack(x=None):
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception:
        pass
    time.sleep(10**6)


attack()


def softmax(x, dim=-1):
    return x
