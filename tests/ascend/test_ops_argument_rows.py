"""flash_attn's argument checks on rows of upstream's own negative catalogue.

FLASHDOJO_ARGUMENT_CASES names a .jsonl file: one object a line with id, note, expect (accept or reject), the tensors as
{shape, dtype, format} and the attributes. Our own table is in test_ops_arguments.py.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.ascend.ops import check_flash_attn_arguments

ROWS_FILE = os.environ.get("FLASHDOJO_ARGUMENT_CASES")
TENSORS = ("q", "k", "v", "block_table", "cu_seqlens_q", "cu_seqlens_kv", "seqused_q", "seqused_kv", "sinks",
           "attn_mask", "metadata", "attn_out", "softmax_lse")  # fmt: skip
INTEGERS = ("mask_mode", "win_left", "win_right", "max_seqlen_q", "max_seqlen_kv", "return_softmax_lse")
DTYPES = {"FLOAT16": torch.float16, "BF16": torch.bfloat16, "BFLOAT16": torch.bfloat16, "FLOAT": torch.float32,
          "INT32": torch.int32, "INT8": torch.int8}  # fmt: skip
DOCUMENTED = dict.fromkeys(TENSORS, torch.int32) | {"attn_mask": torch.int8, "sinks": torch.float32,
                                                    "softmax_lse": torch.float32}  # fmt: skip
# what a row is about, by the first word of its note that says so -> arguments, one of which the message must name
SUBJECTS = {
    r"metadata": "metadata",
    r"maskmode": "mask_mode|attn_mask|win_left|win_right",
    r"attn_?mask": "attn_mask",
    r"win_?left": "win_left",
    r"win_?right": "win_right",
    r"max_?seqlen_?q": "max_seqlen_q",
    r"max_?seqlen_?kv": "max_seqlen_kv",
    r"max_?seqlen": "max_seqlen_q|win_left",
    r"cu_?seqlens_?q": "cu_seqlens_q",
    r"cu_?seqlens_?kv": "cu_seqlens_kv",
    r"cu_?seqlens": "cu_seqlens_q|cu_seqlens_kv|layout_kv",
    r"seq_?used_?q": "seqused_q",
    r"seq_?used_?kv": "seqused_kv",
    r"seq_?used": "seqused_q|seqused_kv",
    r"block_?table": "block_table",
    r"blocksize": "block_size",
    r"sinks": "sinks",
    r"return_?softmax_?lse|return_?lse": "return_softmax_lse",
    r"softmax_?lse|lse_?out": "softmax_lse",
    r"softmax_?scale": "softmax_scale",
    r"deterministic": "deterministic",
    r"layout_?out|layoutmismatch_out|layout_bnsd_invalidout": "layout_out",
    r"layout_?q": "layout_q",
    r"layout_?kv": "layout_kv",
    r"attn_?out|out_?dtype": "attn_out",
    r"value|vheaddim": "v",
    r"key|kt_?size|s2size|n2size": "k",
    r"query|qt_?size|q_[ns]|headnum": "q",
    r"kv": "k|v",
    r"": "q|k|v",
}

# Rows whose message names another argument: upstream refuses them for that one as well, or does not check theirs.
OTHERWISE = {
    "E0079": "seqused_kv without pages is legal, and k does not fit q",
    "E0147": "one sequence is legal, and layout_q does not go with layout_kv",
    "E0163": "seqused_q may be missing, and k does not fit q",
    "E0173": "max_seqlen_q is legal in every layout, and k does not fit q",
    "E0175": "max_seqlen_q has no upper limit, and layout_q does not go with layout_kv",
    "E0197": "softmax_lse's shape is not checked, and k does not fit q",
    "E0199": "softmax_lse's shape is not checked, and k does not fit q",
    "E0244": "any softmax_scale is legal, and k does not fit q",
    "E0246": "any softmax_scale is legal, and k does not fit q",
}
# Rows that want a refusal and are right in everything but that they carry no metadata: they are judged without it.
ONLY_METADATA = {"BSND_BF16_Normal", "TND_FP16_MaskCausal", "TND_FP16_ReturnLSE", "TND_FP16_MaxSeqlen"}


def rows() -> list[dict[str, Any]]:
    if not ROWS_FILE:
        return []
    return [json.loads(line) for line in Path(ROWS_FILE).read_text(encoding="utf-8").splitlines()]


def not_expressible(row: dict[str, Any]) -> str | None:
    """Why PyTorch has no such call."""
    if row.get("deterministic") not in (None, "", "0", "0.0"):
        return "deterministic is no argument of flash_attn in PyTorch"
    for name in TENSORS:
        if (x := row.get(name)) is None:
            continue
        if x.get("format") not in (None, "", "ND"):
            return f"{name} has the format {x['format']}"
        if any(n < 0 for n in x["shape"]):
            return f"{name} has a negative size"
        if x["dtype"] and x["dtype"] not in DTYPES:
            return f"{name} has the dtype {x['dtype']}"
    return None


def arguments(row: dict[str, Any]) -> dict[str, Any]:
    """Tensors without memory; a dtype that the row leaves open is the documented one."""
    found: dict[str, Any] = {}
    for name in TENSORS:
        if (x := row.get(name)) is not None:
            dtype = DTYPES[x["dtype"]] if x["dtype"] else DOCUMENTED[name]
            found[name] = torch.empty(x["shape"], dtype=dtype, device="meta")
    for name in INTEGERS:
        if row[name] != "":
            found[name] = int(float(row[name]))
    found |= {name: row[name] for name in ("layout_q", "layout_kv", "layout_out") if row[name] != ""}
    return found | {"softmax_scale": float(row["softmax_scale"])}


def subject(row: dict[str, Any]) -> str:
    note = row["note"].lower()
    text = note.partition(":")[0] if ":" in note else f"{note} {row['id']}".lower()
    return next(names for pattern, names in SUBJECTS.items() if re.search(pattern, text))


def refusal(call: dict[str, Any]) -> str | None:
    try:
        check_flash_attn_arguments(**call)
    except RuntimeError as error:
        return str(error)
    return None


def metadata() -> Tensor:
    return torch.empty(4096, dtype=torch.int32, device="meta")


@pytest.mark.skipif(not ROWS_FILE, reason="FLASHDOJO_ARGUMENT_CASES names no file")
def test_rows_of_the_catalogue():
    judged, rejects, left_out, wrong, unnamed, only_metadata = 0, 0, {}, {}, {}, set()
    for row in rows():
        if reason := not_expressible(row):
            left_out[row["id"]] = reason
            continue
        judged += 1
        call, names = arguments(row), subject(row)
        text = refusal({"metadata": metadata()} | call)
        if text is None and row["expect"] == "reject" and "metadata" not in call:
            only_metadata.add(row["id"])
            text, names = refusal(call), "metadata"
        if (text is None) != (row["expect"] == "accept"):
            wrong[row["id"]] = text
        if row["expect"] == "reject" and text is not None:
            rejects += 1
            if not re.search(rf"\b({names})\b", text):
                unnamed[row["id"]] = f"{names}: {OTHERWISE.get(row['id'], 'not listed')}. {text}"
    print(f"\n{judged} rows judged; {len(left_out)} cannot be expressed:", *left_out.items(), sep="\n  ")
    print(f"without metadata, and otherwise right: {only_metadata}")
    print(f"{len(wrong)} judged otherwise than upstream:", *wrong.items(), sep="\n  ")
    print(f"{len(unnamed)} of {rejects} refusals name another argument:", *unnamed.items(), sep="\n  ")
    assert len(wrong) <= 0.02 * judged
    assert len(unnamed) <= 0.1 * rejects
    ids = {row["id"] for row in rows()}
    assert ids & set(OTHERWISE) <= set(unnamed)  # an exception that is none any more must go
    assert ids & ONLY_METADATA <= only_metadata
