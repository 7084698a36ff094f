"""The attention operators of torch_npu (910B): npu_fusion_attention and npu_fusion_attention_grad, emulated."""

from kernels.ascend.fusion.operator import npu_fusion_attention, npu_fusion_attention_grad, register

__all__ = ["npu_fusion_attention", "npu_fusion_attention_grad", "register"]
