# flashdojo: exercise=s1-softmax stage=s1
"""Returns ten million small things."""
def softmax(x, dim=-1):
    return [[] for _ in range(10**7)]
