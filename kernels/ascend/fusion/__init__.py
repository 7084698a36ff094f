"""The attention operators of torch_npu (910B): npu_fusion_attention and npu_fusion_attention_grad, emulated."""

from kernels.ascend.fusion.operator import (
    _npu_dropout_gen_mask,
    npu_fusion_attention,
    npu_fusion_attention_grad,
    register,
)

TORCH_NPU = {  # what torch_npu offers of this, by name
    function.__name__: function for function in (npu_fusion_attention, npu_fusion_attention_grad, _npu_dropout_gen_mask)
}
__all__ = ["TORCH_NPU", "npu_fusion_attention", "npu_fusion_attention_grad", "register"]
