# flashdojo: exercise=s1-softmax stage=s1
"""Reads where nothing is."""
import ctypes


def softmax(x, dim=-1):
    ctypes.string_at(0)
