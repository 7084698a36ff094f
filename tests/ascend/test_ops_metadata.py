"""The metadata tensor: its length and header, and that a call with other arguments than its own is refused by name."""

from __future__ import annotations

import pytest
import torch
from operator_calls import metadata_of

from kernels.ascend import ops
from kernels.ascend.device import soc

LAYOUTS = {"layout_q": "BSND", "layout_kv": "BSND", "layout_out": "BSND"}
WINDOW = {"mask_mode": 0, "win_left": -1, "win_right": -1}


def call(**changed) -> dict:
    q, k, v = (torch.zeros(2, length, heads, 64, dtype=torch.float16, device="npu")
               for length, heads in ((32, 4), (48, 2), (48, 2)))  # fmt: skip
    return {"q": q, "k": k, "v": v, **LAYOUTS, **WINDOW, "return_softmax_lse": True} | changed


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device="npu")


def refused(metadata: torch.Tensor, arguments: dict) -> str:
    with pytest.raises(RuntimeError) as caught:
        ops.flash_attn(**arguments, metadata=metadata)
    return str(caught.value)


def test_length_and_header():
    chip = soc.current_soc()
    sizes = {"batch_size": 3, "max_seqlen_q": 100, "max_seqlen_kv": 100}
    metadata = ops.flash_attn_metadata(8, 2, 128, **sizes, mask_mode=3, is_grad_enabled=True)
    assert metadata.dtype == torch.int32
    assert metadata.device.type == "npu"
    words = 16 + 16 * (chip.cube_core_num + chip.vector_core_num) * 3 * 2
    assert metadata.shape == (-(-(words + 412) // 4096) * 4096,)
    assert metadata[:8].tolist() == [1, 0, 128, 128, chip.cube_core_num, chip.vector_core_num, 1, words]
    forward_only = ops.flash_attn_metadata(8, 2, 128, **sizes, mask_mode=3)
    assert forward_only.shape == metadata.shape
    assert forward_only[7] == 0


def test_every_sequence_and_key_head_takes_room():
    sizes = [
        ops.flash_attn_metadata(heads, heads, 64, batch_size=b, max_seqlen_q=8, max_seqlen_kv=8, mask_mode=0).numel()
        for b, heads in ((1, 1), (16, 1), (1, 16), (16, 16))
    ]
    assert sizes[0] < sizes[1] == sizes[2] < sizes[3]
    cu = int32(0, 4, 9, 12)
    packed = ops.flash_attn_metadata(4, 2, 64, cu_seqlens_q=cu, cu_seqlens_kv=cu, mask_mode=0, layout_q="TND",
                                     layout_kv="TND", layout_out="TND")  # fmt: skip
    used = ops.flash_attn_metadata(4, 2, 64, seqused_q=int32(1, 2, 3), max_seqlen_kv=9, mask_mode=0)
    assert packed.numel() == used.numel()


CHANGES = {  # what flash_attn gets in place of what flash_attn_metadata got -> the argument that the refusal names
    "num_heads_q": {"q": torch.zeros(2, 32, 6, 64, dtype=torch.float16)},
    "num_heads_kv": {"k": torch.zeros(2, 48, 4, 64, dtype=torch.float16), "v": torch.zeros(2, 48, 4, 64).half()},
    "head_dim": {name: torch.zeros(2, n, h, 128).half() for name, n, h in (("q", 32, 4), ("k", 48, 2), ("v", 48, 2))},
    "batch_size": {name: torch.zeros(3, n, h, 64).half() for name, n, h in (("q", 32, 4), ("k", 48, 2), ("v", 48, 2))},
    "max_seqlen_q": {"q": torch.zeros(2, 31, 4, 64).half()},
    "max_seqlen_kv": {"k": torch.zeros(2, 64, 2, 64).half(), "v": torch.zeros(2, 64, 2, 64).half()},
    "mask_mode": {"mask_mode": 3, "attn_mask": ops.causal_mask_tensor("cpu")},
    "layout_q": {"q": torch.zeros(2, 4, 32, 64).half(), "k": torch.zeros(2, 2, 48, 64).half(),
                 "v": torch.zeros(2, 2, 48, 64).half(), "layout_q": "BNSD", "layout_kv": "BNSD", "layout_out": "BNSD"},
    "seqused_q": {"seqused_q": torch.tensor([3, 4], dtype=torch.int32)},
    "seqused_kv": {"seqused_kv": torch.tensor([3, 4], dtype=torch.int32)},
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_call_with_other_arguments_is_refused(name):
    metadata = metadata_of(call())
    changed = {key: x.npu() if isinstance(x, torch.Tensor) else x for key, x in CHANGES[name].items()}
    first = refused(metadata, call(**changed)).partition("\n")[0]
    assert first.startswith(f"flash_attn: metadata was made for other arguments: {name} is "), first


def test_the_refusal_gives_both_values():
    mask = ops.causal_mask_tensor()
    band = call(mask_mode=4, attn_mask=mask, win_left=5, win_right=2)
    text = refused(metadata_of(band), band | {"win_left": 6, "win_right": 0})
    assert "win_left is 5 there and 6 here" in text
    assert "win_right is 2 there and 0 here" in text
    assert "max_seqlen_q is 32 there and 16 here" in refused(metadata_of(call()), call(max_seqlen_q=16))
    assert "layout_q is BSND there and BNSD here" in refused(
        metadata_of(call()),
        call(q=call()["q"].transpose(1, 2), k=call()["k"].transpose(1, 2).contiguous(),
             v=call()["v"].transpose(1, 2).contiguous(), layout_q="BNSD", layout_kv="BNSD", layout_out="BNSD"),
    )  # fmt: skip


def test_lengths_wrong_in_both_calls_are_refused():
    arguments = call()
    sizes = {"max_seqlen_q": 16}
    text = refused(metadata_of(arguments, **sizes), arguments | sizes)
    assert "max_seqlen_q is 16 there and 32 here" in text


def test_length_tensors_on_the_cpu_are_refused():
    lengths = {"seqused_q": torch.tensor([3, 4], dtype=torch.int32), "max_seqlen_kv": 48}
    with pytest.raises(RuntimeError, match="seqused_q is on cpu: the operator reads it on the NPU"):
        ops.flash_attn_metadata(4, 2, 64, **lengths, mask_mode=0)


def test_contents_of_the_length_tensors_count():
    q, k = (torch.zeros(10, heads, 64, dtype=torch.float16, device="npu") for heads in (4, 2))
    packed = {"q": q, "k": k, "v": k, "layout_q": "TND", "layout_kv": "TND", "layout_out": "TND", **WINDOW,
              "cu_seqlens_q": int32(0, 3, 10), "cu_seqlens_kv": int32(0, 3, 10)}  # fmt: skip
    metadata = metadata_of(packed)
    ops.flash_attn(**packed, metadata=metadata)
    text = refused(metadata, packed | {"cu_seqlens_q": int32(0, 4, 10)})
    assert "cu_seqlens_q is given in both, but with other values" in text
    text = refused(metadata, packed | {"seqused_kv": int32(3, 5)})
    assert "seqused_kv is given here and not there" in text
    with_prefix = packed | {"seqused_q": int32(3, 5)}
    assert "seqused_q is given there and not here" in refused(metadata_of(with_prefix), packed)


def test_lengths_that_one_side_leaves_out_are_fine():
    arguments = call()
    metadata = metadata_of(arguments)
    ops.flash_attn(**arguments, metadata=metadata, max_seqlen_q=32, max_seqlen_kv=48)
    used = call(seqused_q=int32(20, 7), seqused_kv=int32(9, 48))
    for longest in ({}, {"max_seqlen_q": 20, "max_seqlen_kv": 48}):
        ops.flash_attn(**used, metadata=metadata_of(used, **longest))
        ops.flash_attn(**used, metadata=metadata_of(used, **longest), **longest)


@pytest.mark.parametrize("words", [1, 8192], ids=["short", "as long as the real one"])
def test_any_other_tensor_is_refused(words):
    other = torch.zeros(words, dtype=torch.int32, device="npu")
    assert "metadata carries no fingerprint" in refused(other, call())


def test_a_gradient_needs_is_grad_enabled():
    arguments = call()
    metadata = metadata_of(arguments)
    out, lse = ops.flash_attn(**arguments, metadata=metadata)
    arguments.pop("return_softmax_lse")
    with pytest.raises(RuntimeError, match="is_grad_enabled is False there, and a gradient needs True"):
        ops.flash_attn_grad(dout=out, attn_out=out, softmax_lse=lse, metadata=metadata, **arguments)
    both = metadata_of(arguments, is_grad_enabled=True)
    ops.flash_attn(**arguments, metadata=both)
    ops.flash_attn_grad(dout=out, attn_out=out, softmax_lse=lse, metadata=both, **arguments)


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("seqused_q", (3, -1), r"seqused_q\[1\] is -1"),
        ("seqused_kv", (-2, 3), r"seqused_kv\[0\] is -2"),
        ("cu_seqlens_q", (1, 3, 10), r"cu_seqlens_q\[0\] is 1"),
        ("cu_seqlens_kv", (0, 7, 5), r"cu_seqlens_kv falls from 7 to 5 at \[2\]"),
    ],
)
def test_values_that_the_metadata_kernel_refuses(name, values, text):
    packed = {"layout_q": "TND", "layout_kv": "TND", "layout_out": "TND"}
    cu = {"cu_seqlens_q": int32(0, 3, 10), "cu_seqlens_kv": int32(0, 3, 10)}
    with pytest.raises(RuntimeError, match=text):
        ops.flash_attn_metadata(4, 2, 64, mask_mode=0, **packed, **cu | {name: int32(*values)})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"seqused_q": (3, 33)}, r"seqused_q\[1\] is 33: sequence 1 of the tensor has 32 tokens"),
        ({"seqused_kv": (49, 1)}, r"seqused_kv\[0\] is 49"),
    ],
)
def test_lengths_past_the_tensor_are_refused(changed, text):
    arguments = call(**{name: int32(*values) for name, values in changed.items()})
    with pytest.raises(RuntimeError, match=text):
        ops.flash_attn(**arguments, metadata=metadata_of(arguments))


def test_cu_seqlens_must_end_with_the_tensor():
    q, k = (torch.zeros(10, heads, 64, dtype=torch.float16, device="npu") for heads in (4, 2))
    packed = {"q": q, "k": k, "v": k, "layout_q": "TND", "layout_kv": "TND", "layout_out": "TND", **WINDOW,
              "cu_seqlens_q": int32(0, 3, 9), "cu_seqlens_kv": int32(0, 3, 10)}  # fmt: skip
    assert "cu_seqlens_q ends at 9: it must end at T = 10" in refused(metadata_of(packed), packed)


@pytest.mark.parametrize(("entry", "text"), [(9, r"block_table\[1\]\[0\] = 9 is read"), (-1, "= -1 is read")])
def test_blocks_that_do_not_exist_are_refused_when_they_are_read(entry, text):
    q = torch.zeros(2, 1, 4, 64, dtype=torch.float16, device="npu")
    pool = torch.zeros(4, 16, 2, 64, dtype=torch.float16, device="npu")
    paged = {"q": q, "k": pool, "v": pool, **LAYOUTS, "layout_kv": "PA_BBND", **WINDOW, "seqused_kv": int32(17, 3)}
    table = torch.tensor([[0, 3, -1], [2, -1, 99]], dtype=torch.int32)
    ops.flash_attn(**paged, block_table=table.npu(), metadata=metadata_of(paged))
    table[1, 0] = entry
    with pytest.raises(RuntimeError, match=text):
        ops.flash_attn(**paged, block_table=table.npu(), metadata=metadata_of(paged))
    longer = paged | {"seqused_kv": int32(17, 49)}
    with pytest.raises(RuntimeError, match=r"seqused_kv\[1\] = 49, but block_table has room for 3 blocks of 16"):
        ops.flash_attn(**longer, block_table=table.npu(), metadata=metadata_of(longer))
