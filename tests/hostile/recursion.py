# flashdojo: exercise=s1-softmax stage=s1
"""Calls itself for ever."""
def softmax(x, dim=-1):
    return softmax(x, dim)
