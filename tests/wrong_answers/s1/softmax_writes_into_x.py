# flashdojo: exercise=s1-softmax check=s1-softmax.inputs misconception=input-modified
"""Saves memory by working in the caller's tensor."""
def softmax(x, dim=-1):
    x -= x.amax(dim=dim, keepdim=True)
    x.exp_()
    x /= x.sum(dim=dim, keepdim=True)
    return x
