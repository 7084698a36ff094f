# flashdojo: exercise=s1-softmax stage=s1
"""Returns a list that contains itself."""
def softmax(x, dim=-1):
    ring = []
    ring.append(ring)
    return ring
