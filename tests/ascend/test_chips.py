"""One table of chips, and whatever repeats it for a reader agrees with it: the exercise, the lessons, the documents."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from grader import npu, paths
from kernels.machine import FAULTS, chips
from kernels.machine.chips import CHIPS, FAMILIES, LIKE, RUNS_ON, SOCS, family_of, kind_of, names_of

OPERATOR = {"950": "cann_ops_transformer", "910B": "torch_npu", None: None}
FOLDER = "s3_npu_deployment"


def test_ids_belong_to_one_chip_but_for_the_950():
    ids = [chip.id for chip in CHIPS.values() if chip.family != "950"]
    assert len(ids) == len(set(ids))
    assert {CHIPS[name].id for name in names_of("950")} == {260}
    assert [name for name in CHIPS if name not in SOCS] == [*names_of("310P"), *names_of("310B")]


def test_families_are_found_by_name_also_of_chips_newer_than_the_table():
    for name, chip in CHIPS.items():
        assert family_of(name) == family_of(f"{name} (emulated)") == chip.family
        assert [family for family, like in LIKE.items() if like.match(name)] in ([], [chip.family])
    for name, family in {
        "Ascend950XX_1": "950", "Ascend910_9399": "910_93", "Ascend910B2D": "910B", "Ascend910B9": None, "H100": None,
        "": None, "Ascend910B": "910",
    }.items():  # fmt: skip
        assert family_of(name) == family


def test_what_is_said_of_a_chip_in_words_is_the_table():
    for operator, families in FAMILIES.items():
        for family in ("950", "910B", "910_93"):
            assert (f"Ascend{family}" in RUNS_ON[operator]) is (family in families)
    named = re.compile(r"Ascend[0-9][0-9A-Z_]*")
    assert set(named.findall(FAULTS["soc-unsupported"])) == set(named.findall(npu.FAULTS_ZH["soc-unsupported"]))


def test_the_solutions_table_is_this_one():
    namespace: dict = {}
    exec((paths.SOLUTIONS / FOLDER / "environment.py").read_text("utf-8"), namespace)
    assert namespace["SOC_VERSIONS"] == {name: chip.id for name, chip in CHIPS.items() if chip.family != "950"}
    for name, chip in CHIPS.items():
        plan = namespace["plan_environment"](name, "2.12.0", "2.12.0")
        assert plan["operator"] == (OPERATOR[kind_of(name)] or "cpu")
        assert plan["bfloat16"] is chip.bfloat16


def rows(text: str) -> list[list[str]]:
    """Rows of markdown tables whose first cell names a chip."""
    lines = (line for line in text.splitlines() if re.match(r"\| Ascend\d", line))
    return [[cell.strip().replace("\\", "").replace("*", "") for cell in line.strip("|").split("|")] for line in lines]


def span(family: str) -> str:
    ids = [CHIPS[name].id for name in names_of(family)]
    return str(ids[0]) if ids[0] == ids[-1] else f"{ids[0]}-{ids[-1]}"


def families_in(cell: str) -> list[str]:
    patterns = {"950": "950", "910_93": r"910_93", "910B": "910B1", "310B": "310B", "310P": "310P", "910": "910A"}
    return [family for family, pattern in patterns.items() if re.search(pattern, cell)]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("where", ["lesson", "document"])
def test_the_tables_for_readers_are_this_one(where, language):
    document, lesson = f"docs/{language}/npu.md", f"stages/{FOLDER}/lesson.{language}.md"
    path = paths.ROOT / (lesson if where == "lesson" else document)
    told = [row for row in rows(path.read_text("utf-8")) if re.search(r"\b(100|2\d\d)\b", row[1])]
    seen = []
    for chip, ids, *rest in told:
        families = families_in(chip)
        seen += families
        ranges = re.sub(r"\s*(to|～|到|~|–)\s*", "-", ids)
        for family in families:
            assert span(family) in re.split(r"[、,;；]\s*|\s+and\s+|\s*和\s*", ranges), (chip, ids)
        operator = " ".join(rest)
        if kind_of(names_of(families[0])[0]) is None:
            assert "npu_fusion_attention" not in operator
            assert "cann_ops_transformer" not in operator
        elif families[0] in FAMILIES["flash_attn"]:
            assert "cann_ops_transformer" in operator
    assert set(seen) == {chip.family for chip in CHIPS.values()}


def test_importing_the_table_installs_nothing():
    code = (
        "import sys; from kernels.machine import chips; import torch;"
        "assert not hasattr(torch, 'npu') and 'kernels.ascend' not in sys.modules and chips.CHIPS"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=paths.ROOT)


def test_the_default_is_a_chip_with_all_operators():
    family = chips.find_soc(chips.DEFAULT).family
    assert all(family in families for families in FAMILIES.values())
