"""The model against what was measured: the bounds of the table that benchmarks/calibration.py prints."""

from __future__ import annotations

import csv
from collections import defaultdict
from itertools import pairwise

import pytest

from kernels.perf import calibrate
from kernels.perf.accuracy import BANDS, FROM_HOST
from kernels.perf.calibration import A2_CORE_MICROSECONDS, A2_COUNTERS, TABLE, Row, median_error, worst_error


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return calibrate()


def test_every_forward_row_is_predicted(rows):
    with TABLE.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 136
    assert [line["direction"] for line in lines if not line["schedule"]] == ["bwd", "bwd"]
    assert len(rows) == 134
    assert all(line["source"] for line in lines)


def test_the_table_counts_flops_as_the_shape_does(rows):
    with TABLE.open(newline="", encoding="utf-8") as file:
        stated = [float(line["flops"]) for line in csv.DictReader(file) if line["direction"] == "fwd"]
    for row, flops in zip(rows, stated, strict=True):
        assert row.shape.flops == pytest.approx(flops, rel=1e-3)  # some count a causal half without its diagonal


def test_median_errors(rows):
    assert median_error([row for row in rows if row.device]) <= 0.05
    assert median_error(rows) <= 0.08


@pytest.mark.parametrize("device", [True, False])
def test_the_holdout_is_no_worse_than_the_fit(rows, device):
    rows = [row for row in rows if row.device or not device]
    fit, holdout = ([row for row in rows if row.part == part] for part in ("fit", "holdout"))
    assert abs(len(fit) - len(holdout)) < len(rows) / 8
    assert median_error(holdout) <= 1.5 * median_error(fit)


def test_every_fitted_number_of_vector_code_has_a_row_in_the_fit(rows):
    codes = defaultdict(set)
    for row in rows:
        codes[row.soc.arch, row.part].add(row.schedule.vector_code)
    for arch in ("2201", "3510"):
        known = {code for (a, _), found in codes.items() if a == arch for code in found}
        assert codes[arch, "fit"] == known


def test_the_ladder_stands_in_the_right_order(rows):
    steps = sorted((row for row in rows if row.group == "950 ladder" and row.soc.cores == 32), key=lambda r: r.measured)
    assert len(steps) == 8
    assert sorted(steps, key=lambda row: row.predicted) == steps
    assert all(abs(row.error) < 0.10 for row in steps)
    for after, before in pairwise(steps):
        assert (before.predicted / after.predicted) / (before.measured / after.measured) == pytest.approx(1, abs=0.1)


def test_the_counters_of_the_a2_profile(rows):
    (row,) = [row for row in rows if row.measured == 407.1]
    assert set(A2_COUNTERS) == set(row.prediction.busy)
    for pipe, measured in A2_COUNTERS.items():
        assert row.prediction.busy[pipe] == pytest.approx(measured, rel=0.20), pipe
    assert row.prediction.core_microseconds == pytest.approx(A2_CORE_MICROSECONDS, rel=0.1)


def test_the_error_bands_hold_but_for_one_row(rows):
    outside = []
    for row in rows:
        band = BANDS[row.soc.arch] if row.device else FROM_HOST
        if not 1 - band.below <= row.measured / row.predicted <= 1 + band.above:
            outside.append((row.kernel, row.shape.seq_q))
    assert outside == [("PTO manual FA", 8192)]
    assert worst_error(rows) < FROM_HOST.above
