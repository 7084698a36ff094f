# flashdojo: exercise=s1-softmax stage=s1
"""An object that deletes files when it is unpickled."""
import os


class Bomb:
    def __reduce__(self):
        return os.system, ('rm -rf ~/flashdojo-bomb; touch /tmp/flashdojo-bomb',)


def softmax(x, dim=-1):
    return Bomb()
