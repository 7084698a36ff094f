# flashdojo: exercise=s1-softmax check=s1-softmax.half misconception=half-sum
# idea: The running sum of the exponentials is kept in the input's half precision instead of float32.
import torch


def softmax(x, dim=-1):
    biggest = x.max(dim=dim, keepdim=True).values
    if x.dtype == torch.float64:
        e = torch.exp(x - biggest)
    else:
        e = torch.exp(x.float() - biggest.float())

    total = torch.zeros_like(biggest).squeeze(dim)
    for piece in e.unbind(dim):
        total += piece
    return (e / total.unsqueeze(dim)).to(x.dtype)
