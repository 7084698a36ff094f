# flashdojo: exercise=s1-softmax check=s1-softmax.stable misconception=max-other-quantity
"""Subtracts the mean instead of the maximum: the spread alone still overflows."""
def softmax(x, dim=-1):
    centred = x - x.mean(dim=dim, keepdim=True)
    e = centred.exp()
    return e / e.sum(dim=dim, keepdim=True)
