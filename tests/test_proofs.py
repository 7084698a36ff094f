"""Every proof the repository keeps about itself, one test each. ``flashdojo dev check`` runs the same.

That the notebooks run from top to bottom is tested with the notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.proving import proofs

KINDS = [kind for kind in proofs.KINDS if kind != "runs"]
PROOFS = proofs.collect(kinds=KINDS)


@pytest.fixture(scope="session")
def runner() -> Iterator[proofs.Runner]:
    with proofs.Runner() as runner:
        yield runner


@pytest.mark.parametrize("proof", PROOFS, ids=[proof.id.replace(" ", "-") for proof in PROOFS])
def test_proof(proof: proofs.Proof, runner: proofs.Runner) -> None:
    proof.run(runner)


def test_every_kind_has_something_to_prove() -> None:
    assert {proof.kind for proof in PROOFS} == set(KINDS)
    ids = [proof.id for proof in PROOFS]
    assert len(set(ids)) == len(ids)
