# flashdojo: exercise=all stage=s1
"""Prints for ever while loading."""
while True:
    print('x' * 100000)


def softmax(x, dim=-1):
    return x
