# flashdojo: exercise=s3-module
"""The course's teaching wrapper under another name."""
from ops_transformer import FlashAttention


class NpuFlashAttention(FlashAttention):
    pass
