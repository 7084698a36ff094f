# flashdojo: exercise=s1-softmax stage=s1
"""Returns half a gigabyte of text."""
def softmax(x, dim=-1):
    return 'x' * (1 << 29)
