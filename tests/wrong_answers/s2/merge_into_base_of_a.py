# flashdojo: exercise=s2-merge check=s2-merge.values misconception=merge-takes-one-max
# idea: b is brought to the maximum of a, even when b's own maximum is far larger, so exp overflows.
import torch


def merge_states(a, b):
    m_a, l_a, o_a = a
    m_b, l_b, o_b = b
    a_empty = m_a == float("-inf")
    # a has seen nothing yet: b is the base
    base = torch.where(a_empty, m_b, m_a)
    zero_if_empty = lambda m: torch.where(m == float("-inf"), torch.zeros_like(m), torch.exp(m - base))
    w_a = zero_if_empty(m_a)
    w_b = zero_if_empty(m_b)
    return base, l_a * w_a + l_b * w_b, o_a * w_a + o_b * w_b
