# flashdojo: exercise=all stage=s1
"""Aborts while loading."""
import os

os.abort()


def softmax(x, dim=-1):
    return x
