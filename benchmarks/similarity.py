"""How well copies are told from answers that were found independently: measured on the repository's own answers.

python -m benchmarks.similarity          the table of docs/*/integrity.md
python -m benchmarks.similarity --peer   the same with copydetect, if it is installed
"""

from __future__ import annotations

import argparse
import functools
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

from benchmarks.disguises import DISGUISES, USUAL
from grader import paths
from grader.batch import intake
from grader.course import catalog, notebooks
from grader.integrity.compare import Print, Share, share
from grader.integrity.shape import tokens_of
from grader.integrity.survey import contract, given, survey
from grader.reading import submission

RIGHT = paths.ROOT / "tests" / "right_answers"
PUBLISHED = "published"
MADE_FROM = {  # right answers that are no work of their own, and what they were made from
    "query_scaled_first": "textbook",  # with the scale moved
    "as_in_the_lesson": PUBLISHED,
    "autocast_and_loops": PUBLISHED,  # with three exercises in another way
    "my_notebook": "one_call_builder",  # as a notebook
}
CLASS = 300  # submissions


def whole_stages() -> list[str]:
    """Stages whose samples are whole programs, as handed in. Those of the others are about one exercise each."""
    stages = [stage.id for stage in catalog.load(checks=False).stages]
    samples = {id: (file.read_text("utf-8") for file in RIGHT.glob(f"{id}/*.py")) for id in stages}
    return [id for id, texts in samples.items() if not any("# flashdojo: " in text for text in texts)]


def sources(stage: str) -> dict[str, str]:
    """The right answers of a stage and its published solution, each as one program."""
    found = {file.stem: _source(file) for file in sorted((RIGHT / stage).iterdir()) if file.suffix in (".py", ".ipynb")}
    parts = (exercise.solution.read_text("utf-8") for exercise in catalog.load(checks=False).stage(stage).exercises)
    return {**found, PUBLISHED: "\n\n".join(parts)}


def _source(file: Path) -> str:
    return "\n\n".join(cell.source for cell in submission.read(file).cells)


Compare = Callable[[str, str, bool], tuple[float, bool]]  # two sources, is one published: degree, is it flagged


def ours(one: str, other: str, published: bool) -> tuple[float, bool]:
    first, second = _print(one, published), _print(other, published)
    shares: list[Share] = [share(first, second), share(second, first)]
    return max(found.whole for found in shares), any(found.worth_a_look for found in shares)


@functools.lru_cache(maxsize=64)
def _print(source: str, published: bool) -> Print:
    skeletons, answers = given()
    tokens = tokens_of(submission.parsed(Path("x.py"), source.encode()), contract().keys())
    return Print(tokens, skeletons if published else skeletons | answers)


def peer(stage: str) -> Compare:
    """copydetect with its defaults, the skeleton as boilerplate; flagged is what it would show (33 %)."""
    import io

    import numpy as np
    from copydetect.detector import CodeFingerprint, compare_files

    k, window = 25, 6
    built = notebooks.build(catalog.load(checks=False).stage(stage), "en")
    skeleton = "\n\n".join(cell.source for cell in built.cells if cell.cell_type == "code")
    handed = CodeFingerprint("x.py", k, 1, fp=io.StringIO(skeleton)).hashes

    def compare(one: str, other: str, published: bool) -> tuple[float, bool]:
        first, second = (
            CodeFingerprint("x.py", k, window, np.array(list(handed)), fp=io.StringIO(text)) for text in (one, other)
        )
        degree = max(compare_files(first, second)[1])
        return degree, degree >= 0.33

    return compare


def independent(stage: str, compare: Compare) -> Iterator[tuple[float, bool, str, str]]:
    texts = sources(stage)
    for one, other in combinations(texts, 2):
        if MADE_FROM.get(one) != other and MADE_FROM.get(other) != one:
            yield *compare(texts[one], texts[other], PUBLISHED in (one, other)), one, other


def originals(stage: str) -> dict[str, str]:
    """What can be copied from a fellow learner, and what is published."""
    return {name: text for name, text in sources(stage).items() if MADE_FROM.get(name) != PUBLISHED}


def copied(stage: str, compare: Compare, name: str) -> Iterator[tuple[float, bool, str]]:
    for original, text in originals(stage).items():
        copy = DISGUISES[name](text, contract().keys(), random.Random(original))
        yield *compare(copy, text, original == PUBLISHED), original


def table(stages: list[str], compare: dict[str, Compare]) -> None:
    found = [row for stage in stages for row in independent(stage, compare[stage])]
    worst = max(found)
    flagged = sum(row[1] for row in found)
    print(f"| {'what':44} | flagged | least | mean | most |")
    print(f"|{'-' * 46}|--------:|------:|-----:|-----:|")
    _row("independent right answers", flagged, [row[0] for row in found])
    for name in DISGUISES:
        copies = [row for stage in stages for row in copied(stage, compare[stage], name)]
        _row(f"copies: {name}", sum(row[1] for row in copies), [row[0] for row in copies])
    print(f"\nmost alike among the independent: {worst[2]} and {worst[3]}")


def _row(name: str, flagged: int, degrees: list[float]) -> None:
    low, mean, high = min(degrees), sum(degrees) / len(degrees), max(degrees)
    print(f"| {name:44} | {flagged} of {len(degrees)} | {low:.2f} | {mean:.2f} | {high:.2f} |")


def seconds(count: int = CLASS) -> float:
    """Of CPU time for a class in which the right answers go round, each time in another disguise."""
    texts = list(sources("s2").values())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            text = USUAL(texts[number % len(texts)], contract().keys(), random.Random(number))
            Path(folder, f"learner{number:03}.py").write_text(text, encoding="utf-8")
        start = time.process_time()
        survey(intake.collect([folder]))
        return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="store_true", help="measure copydetect instead")
    options = parser.parse_args()
    stages = whole_stages()
    table(stages, {stage: peer(stage) if options.peer else ours for stage in stages})
    if not options.peer:
        print(f"\n{CLASS} submissions, every pair: {seconds():.0f} s of one core")


if __name__ == "__main__":
    main()
