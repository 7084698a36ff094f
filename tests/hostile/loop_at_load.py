# flashdojo: exercise=all stage=s1
"""Never ends loading."""
while True:
    pass


def softmax(x, dim=-1):
    return x
