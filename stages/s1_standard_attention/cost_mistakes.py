"""The cost formulas of standard attention, and what comes of forgetting or doubling a part of them."""

from __future__ import annotations

from grader.checking.formulas import formula, formulas

FLOPS = formula("4*B*N*S1*S2*D")
HBM_BYTES = formula("e*B*N*(2*S1*D + 2*S2*D + 4*S1*S2)")
SCORE_BYTES = formula("e*B*N*S1*S2")

WRONG_FLOPS = formulas(
    {
        "flops-half": ["2*B*N*S1*S2*D", "B*N*S1*S2*D", "3*B*N*S1*S2*D"],
        "cost-batch-or-heads": ["4*N*S1*S2*D", "4*B*S1*S2*D", "4*S1*S2*D"],
        "cost-square": ["4*B*N*S1*S1*D", "4*B*N*S2*S2*D", "4*B*N*(S1+S2)*D"],
        "flops-head-dim": ["4*B*N*S1*S2", "4*B*N*S1*S2*D*N", "4*B*N*S1*S2*D*D", "4*B*N*S1*S2*D/N"],
        "flops-bytes": ["4*e*B*N*S1*S2*D"],
        "flops-training": ["12*B*N*S1*S2*D", "14*B*N*S1*S2*D", "8*B*N*S1*S2*D"],
        "flops-softmax": [f"B*N*S1*S2*(4*D + {n})" for n in range(1, 9)],
    }
)

WRONG_HBM_BYTES = formulas(
    {
        "bytes-scores": [f"e*B*N*(2*S1*D + 2*S2*D + {n}*S1*S2)" for n in (1, 2, 3, 5, 6)],
        "bytes-scores-missing": ["e*B*N*(2*S1*D + 2*S2*D)"],
        "bytes-output": ["e*B*N*(S1*D + 2*S2*D + 4*S1*S2)", "e*B*N*(3*S1*D + 2*S2*D + 4*S1*S2)"],
        "bytes-operand": [
            "e*B*N*(2*S1*D + S2*D + 4*S1*S2)",
            "e*B*N*(S1*D + S2*D + 4*S1*S2)",
            "e*B*N*(2*S2*D + 4*S1*S2)",
            "e*B*N*4*S1*S2",
            "e*B*N*(S1*D + 4*S1*S2)",
        ],
        "bytes-element-size": [
            "B*N*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "e*e*B*N*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "8*e*B*N*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "B*N*(e*(2*S1*D + 2*S2*D) + 4*S1*S2)",
        ],
        "cost-batch-or-heads": [
            "e*N*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "e*B*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "e*(2*S1*D + 2*S2*D + 4*S1*S2)",
            "e*B*(2*S1*D + 2*S2*D + 4*N*S1*S2)",
            "e*B*N*(2*S1*D + 2*S2*D) + 4*e*B*S1*S2",
            "e*B*N*(2*S1*D + 2*S2*D) + 4*e*S1*S2",
        ],
        "cost-square": [
            "e*B*N*(2*S1*D + 2*S2*D + 4*S1*S1)",
            "e*B*N*(2*S1*D + 2*S2*D + 4*S2*S2)",
            "e*B*N*(4*S1*D + 4*S1*S2)",
            "e*B*N*(4*S1*D + 4*S1*S1)",
            "e*B*N*(4*S2*D + 4*S2*S2)",
            "e*B*N*(S1*D + 3*S2*D + 4*S1*S2)",
        ],
    }
)

WRONG_SCORE_BYTES = formulas(
    {
        "score-bytes-twice": ["2*e*B*N*S1*S2", "4*e*B*N*S1*S2"],
        "bytes-element-size": ["B*N*S1*S2", "8*e*B*N*S1*S2", "e*e*B*N*S1*S2"],
        "cost-batch-or-heads": ["e*N*S1*S2", "e*B*S1*S2", "e*S1*S2"],
        "cost-square": ["e*B*N*S1*S1", "e*B*N*S2*S2", "e*B*N*(S1+S2)"],
        "score-bytes-head-dim": ["e*B*N*S1*S2*D", "e*B*N*(S1+S2)*D", "e*B*N*S1*D", "e*B*N*S2*D"],
    }
)
