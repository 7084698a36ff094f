import torch


class FlashAttentionFunction(torch.autograd.Function):
    """flash_attention_forward and flash_attention_backward as one differentiable operation.

    FlashAttentionFunction.apply(q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128)
    -> (attn_out, softmax_lse); softmax_lse is marked non-differentiable.
    """

    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        # zh: 调用 flash_attention_forward；用 ctx.save_for_backward 保存反向需要的 5 个张量，其余选项存在 ctx 上；
        # zh: 用 ctx.mark_non_differentiable 标记 softmax_lse。
        # en: Call flash_attention_forward; save the 5 tensors that backward needs with ctx.save_for_backward,
        # en: the options on ctx, and mark softmax_lse with ctx.mark_non_differentiable.
        ### BEGIN SOLUTION
        ctx.options = {
            "scale": scale,
            "mask_mode": mask_mode,
            "win_left": win_left,
            "win_right": win_right,
            "block_q": block_q,
            "block_kv": block_kv,
        }
        attn_out, softmax_lse = flash_attention_forward(q, k, v, **ctx.options)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dout, _dlse):
        # zh: 取回保存的张量，调用 flash_attention_backward。forward 有 9 个输入，所以要返回 9 个值，选项的梯度是 None。
        # en: Fetch what was saved and call flash_attention_backward. forward has 9 inputs, so return 9 values;
        # en: the gradient of an option is None.
        ### BEGIN SOLUTION
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        gradients = flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, **ctx.options)
        return *gradients, None, None, None, None, None, None
        ### END SOLUTION
