# flashdojo: exercise=s1-softmax
"""The method."""
def softmax(x, dim=-1):
    return x.softmax(dim)
