"""What npu_fusion_attention refuses: argument, value and rule in the message."""

from __future__ import annotations

import pytest
import torch
from fusion_right_calls import NK, SKV, SQ, B, D, N, call, mask, packed, torch_npu, zeros

pytestmark = pytest.mark.usefixtures("chip_910b")


def flipped() -> torch.Tensor:
    return torch.ones(2048, 2048).tril().bool().npu()


CALLS = {
    "head_num 0": (dict(head_num=0), "head_num is 0", "greater than 0"),
    "rank of query": (dict(query=zeros(SQ, D)), "rank of query is 2", "3 or 4"),
    "rank of key": (dict(key=zeros(1, B, NK, SKV, D)), "rank of key is 5", "3 or 4"),
    "keep_prob 0": (dict(keep_prob=0.0), "keep_prob is 0", "(0, 1]"),
    "keep_prob 1.5": (dict(keep_prob=1.5), "keep_prob is 1.5", "(0, 1]"),
    "layout": (dict(input_layout="BNS"), "input_layout is 'BNS'", "BSH, SBH, BSND, BNSD, TND"),
    "softmax_layout": (dict(softmax_layout="NTD"), "softmax_layout is 'NTD'", '"TND"'),
    "softmax_layout elsewhere": (dict(softmax_layout="TND"), "softmax_layout", 'input_layout "TND" only'),
    "sparse_mode 7": (dict(sparse_mode=7), "sparse_mode is 7", "[0, 6]"),
    "sparse_mode -1": (dict(sparse_mode=-1), "sparse_mode is -1", "[0, 6]"),
    "tnd": (dict(input_layout="tnd", sparse_mode=8), "sparse_mode is 8", "[0, 6]"),
    "dtype": (dict(query=zeros(B, N, SQ, D, dtype=torch.float64)), "dtype of query is torch.float64", "float32"),
    "integers": (dict(query=zeros(B, N, SQ, D, dtype=torch.int32)), "dtype of query is torch.int32", "float16"),
    "two dtypes": (dict(key=zeros(B, NK, SKV, D, dtype=torch.bfloat16)), "dtype of key", "that of query"),
    "layout and rank": (dict(input_layout="BSH"), "rank of query is 4", "layout BSH has rank 3"),
    "empty": (dict(query=zeros(B, N, 0, D)), "shape of query is (2, 4, 0, 16)", "no dimension may be 0"),
    "head_num of another": (dict(head_num=8), "head_num is 8", "has 4 heads"),
    "batch": (dict(key=zeros(3, NK, SKV, D)), "batch size of key is 3", "that of query, 2"),
    "length of value": (dict(value=zeros(B, NK, 12, D)), "length of value is 12", "that of key, 13"),
    "head dimension of key": (dict(key=zeros(B, NK, SKV, 8)), "head dimension of key is 8", "16"),
    "heads of value": (dict(value=zeros(B, 1, SKV, D)), "number of heads of value is 1", "that of key, 2"),
    "heads of key": (
        dict(key=zeros(B, 3, SKV, D), value=zeros(B, 3, SKV, D)), "number of heads of key is 3", "divide",
    ),
    "wide value": (dict(value=zeros(B, NK, SKV, 32)), "head dimension of value is 32", "16"),
    "head dimension 769": (
        {"query": zeros(1, 1, 2, 769), "key": zeros(1, 1, 2, 769), "value": zeros(1, 1, 2, 769), "head_num": 1},
        "head dimension of query is 769", "[1, 768]",
    ),
    "heads 257": (
        {"query": zeros(1, 257, 2, 1), "key": zeros(1, 1, 2, 1), "value": zeros(1, 1, 2, 1), "head_num": 257},
        "head_num is 257", "[1, 256]",
    ),
    "dtype of mask": (dict(atten_mask=mask(SQ, SKV, dtype=torch.float16)), "dtype of atten_mask", "True = masked"),
    "int8 mask": (dict(atten_mask=mask(SQ, SKV, dtype=torch.int8)), "dtype of atten_mask is torch.int8", "uint8"),
    "shape of a whole mask": (dict(atten_mask=mask(SKV, SQ)), "shape of atten_mask is (13, 9)", "(9, 13)"),
    "whole mask for mode 3": (
        dict(atten_mask=mask(SQ, SKV), sparse_mode=3), "shape of atten_mask is (9, 13)", "(2048, 2048)",
    ),
    "polarity": (dict(atten_mask=flipped(), sparse_mode=3), "content of atten_mask", "True strictly above"),
    "rectangle": (
        dict(atten_mask=mask(3072, 2048), sparse_mode=6, prefix=[4, 4]), "content of atten_mask", "right half is True",
    ),
    "empty band": (
        dict(atten_mask=mask(2048, 2048), sparse_mode=4, pre_tockens=-3, next_tockens=2), "pre_tockens is -3",
        "next_tockens is 2",
    ),
    "no prefix": (dict(atten_mask=mask(B, 1, SQ, SKV), sparse_mode=5), "prefix is None", "one length per batch"),
    "short prefix": (
        dict(atten_mask=mask(B, 1, SQ, SKV), sparse_mode=5, prefix=[5]), "length of prefix is 1", "per batch, 2",
    ),
    "small prefix": (
        dict(atten_mask=mask(B, 1, SQ, SKV), sparse_mode=5, prefix=[5, 3]), "prefix is [5, 3]", "Skv - Sq",
    ),
    "mask of mode 5": (
        dict(atten_mask=mask(SQ, SKV), sparse_mode=5, prefix=[5, 5]), "shape of atten_mask is (9, 13)", "(2, 1, 9, 13)",
    ),
    "inner_precise": (dict(inner_precise=3), "inner_precise is 3", "0, 1 or 2"),
    "padding_mask": (dict(padding_mask=zeros(B, SKV)), "padding_mask", "atten_mask"),
    "dtype of pse": (dict(pse=zeros(B, N, SQ, SKV, dtype=torch.float32)), "dtype of pse", "float16"),
    "shape of pse": (dict(pse=zeros(SQ, SKV)), "shape of pse is (9, 13)", "(1, 4, 9, 13)"),
    "dtype of sink": (dict(sink=zeros(N)), "dtype of sink is torch.float16", "float32"),
    "shape of sink": (dict(sink=zeros(NK, dtype=torch.float32)), "shape of sink is (2,)", "(4,)"),
    "dropout_mask": (
        dict(keep_prob=0.5, dropout_mask=zeros(8, dtype=torch.uint8)), "size of dropout_mask is 8", "128",
    ),
    "dropout_mask of another seed": (
        dict(keep_prob=0.5, seed=3, dropout_mask=zeros(200, dtype=torch.uint8)), "content of dropout_mask", "seed",
    ),
    "float dropout_mask": (dict(keep_prob=0.5, dropout_mask=zeros(900)), "dtype of dropout_mask", "uint8"),
}  # fmt: skip


PACKED = {
    "no lengths": (dict(actual_seq_qlen=None), "actual_seq_qlen is None", "cumulative"),
    "empty lengths": (dict(actual_seq_kvlen=[]), "actual_seq_kvlen is []", "cumulative"),
    "two lists": (dict(actual_seq_kvlen=[7]), "length of actual_seq_kvlen is 1", "actual_seq_qlen, 2"),
    "lengths, not ends": (dict(actual_seq_qlen=[3, 2]), "actual_seq_qlen is [3, 2]", "never fall"),
    "too many tokens": (dict(actual_seq_kvlen=[3, 9]), "actual_seq_kvlen is [3, 9]", "key has 7 tokens"),
    "sparse_mode 5": (dict(sparse_mode=5), "sparse_mode is 5", "[0, 5) or (5, 8]"),
    "sparse_mode 9": (dict(sparse_mode=9), "sparse_mode is 9", "[0, 5) or (5, 8]"),
    "a mask per batch": (dict(atten_mask=mask(2, 1, 3, 4)), "shape of atten_mask is (2, 1, 3, 4)", "[(3, 4)]"),
    "pse": (dict(pse=zeros(2, N, 3, 4)), "pse is given", "ALiBi"),
    "pse and mode 7": (dict(pse=zeros(2, N, 3, 4), sparse_mode=7), "pse is given", "sparse_mode 7 takes none"),
    "rank": (dict(query=zeros(1, 5, N, D)), "rank of query is 4", "layout TND has rank 3"),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str) -> None:
    changes, *words = CALLS[name]
    with pytest.raises(RuntimeError) as caught:
        call(**changes)
    for word in ("npu_fusion_attention", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("name", PACKED)
def test_refused_of_packed_sequences(name: str) -> None:
    changes, *words = PACKED[name]
    with pytest.raises(RuntimeError) as caught:
        packed(**changes)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("q", "kv", "layout", "words"),
    [
        ((1, 1, 2**20 + 1, 1), (1, 1, 8, 1), "BNSD", "length of query is 1048577"),
        ((1, 1, 8, 1), (1, 2**20 + 1, 1), "BSND", "rank of key is 3"),
        ((1, 8, 1, 1), (1, 2**20 + 1, 1, 1), "BSND", "length of key is 1048577"),
        ((2**21 + 1, 1, 1), (2**21 + 1, 1, 1), "BSH", "batch size of query is 2097153"),
        ((2**20 + 1, 1, 1), (8, 1, 1), "TND", "length of query is 1048577"),
    ],
)
def test_sizes_that_are_too_large(q: tuple[int, ...], kv: tuple[int, ...], layout: str, words: str) -> None:
    query, key = (torch.empty(shape, device="meta") for shape in (q, kv))
    lengths = {"actual_seq_qlen": [8], "actual_seq_kvlen": [8]} if layout == "TND" else {}
    with pytest.raises(RuntimeError, match=words):
        torch_npu.npu_fusion_attention(query, key, key, 1, layout, **lengths)


def test_shapes_of_the_largest() -> None:
    query, key = torch.empty(1, 2, 2**20, 64, device="meta"), torch.empty(1, 1, 2**20, 64, device="meta")
    out, top, total, *_, numels = torch_npu.npu_fusion_attention(query, key, key, 2, "BNSD")
    assert out.shape == query.shape
    assert top.shape == total.shape == (1, 2, 2**20, 8)
    assert numels == 2 * 2**40


def test_what_is_not_wrong_is_taken() -> None:
    assert call()[0].shape == (B, N, SQ, D)
    assert packed()[0].shape == (5, N, D)


@pytest.mark.parametrize(("layout", "shape", "words"), [("BSH", (B, SQ, 30), "query, 30"), ("SBH", (SQ, B, 64), "32")])
def test_wide_layouts_need_whole_heads(layout: str, shape: tuple[int, ...], words: str) -> None:
    key = zeros(*shape[:2], 24)
    with pytest.raises(RuntimeError, match=words if layout == "BSH" else "last dimension of key is 24"):
        torch_npu.npu_fusion_attention(zeros(*shape), key, key, 4, layout)
