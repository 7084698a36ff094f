"""Checks of s4-evidence: two profiles that say what the schedules do, in every one of their files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from grader.checking.model_errors import in_words
from grader.vocabulary import Context, check, say
from kernels.perf import Prediction
from kernels.perf.tuning_cases import BY_NAME
from kernels.profiles import BadProfile, Kernel, Profile, kernel_run, read, write_msprof, write_pytorch
from kernels.profiles.columns import BLOCK
from kernels.profiles.writing import ORIGIN_NS

from .tuning import handed_in, run, start_of

CASE = "block-size"
FOLDER = "profiles"
WRITERS: dict[str, Callable[..., Path]] = {"pytorch": write_pytorch, "msprof": write_msprof}
DIGITS = 0.0006  # what three decimals may differ by


def _profile(ctx: Context, root: Path, which: str) -> Profile:
    try:
        found = read(root / which)
    except BadProfile as error:
        text = in_words(error)
        short = [sentence.replace(str(root), FOLDER) for sentence in text]
        ctx.fail(say(*short), misconception="evidence-unreadable")
    if not found.level or any(kernel.aicore_us is None for kernel in found.kernels):
        ctx.fail(
            say(
                "{folder}/{which} 里没有计数器（level 0），看不出快在哪里。",
                "{folder}/{which} has no counters (level 0): it does not show why it is faster.",
                folder=FOLDER,
                which=which,
            ),
            misconception="evidence-unreadable",
        )
    return found


def _should_be(kernel: Kernel, prediction: Prediction) -> Kernel:
    """The row that the course's writer gives for this prediction, where and when the profile has it."""
    case = BY_NAME[CASE]
    made = kernel_run(prediction, case.shape, case.soc, name=kernel.name)
    return replace(
        made,
        start_ns=(kernel.start_ns or ORIGIN_NS) - ORIGIN_NS,
        step=kernel.step,
        stream=kernel.stream,
        task=kernel.task,
        wait_us=kernel.wait_us,
    )


def _numbers(kernel: Kernel) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {
        "duration_us": kernel.duration_us,
        "block_num": kernel.block_num,
        "aicore_us": kernel.aicore_us,
        "aiv_us": kernel.aiv_us,
        "cube_utilization": kernel.cube_utilization,
    }
    numbers |= {name: kernel.ratios[name] for name in ("mac", "mte1", "mte2", "fixpipe")}
    return numbers | {f"aiv {name}": kernel.aiv_ratios[name] for name in ("vec", "mte2", "mte3")}


def _require_prediction(ctx: Context, found: Profile, which: str, prediction: Prediction, idea: str) -> None:
    for kernel in found.kernels:
        got, want = _numbers(kernel), _numbers(_should_be(kernel, prediction))
        wrong = [key for key, value in want.items() if value is not None and not _near(got[key], value)]
        if wrong:
            key = wrong[0]
            ctx.fail(
                say(
                    "{folder}/{which} 的 {key} 是 {got}，这个调度的 profile 里应是 {want:.3f}。",
                    "{key} in {folder}/{which} is {got}; a profile of that schedule has {want:.3f}.",
                    folder=FOLDER,
                    which=which,
                    key=key,
                    got=got[key],
                    want=want[key],
                ),
                misconception=idea,
                evidence={"expected": want[key], "got": got[key], "case": key},
            )


def _near(got: float | None, want: float) -> bool:
    return got is not None and abs(got - want) <= DIGITS


def _predictions(ctx: Context) -> dict[str, Prediction]:
    return {
        "before": run(ctx, CASE, start_of(BY_NAME[CASE])),
        "after": run(ctx, CASE, handed_in(ctx, CASE)),
    }


@check("s4-evidence.before", points=1, concept="evidence")
def evidence_before(ctx: Context) -> None:
    """profiles/before can be read and is of the start."""
    with ctx.artifact(FOLDER).folder() as root:
        found = _profile(ctx, root, "before")
    _require_prediction(ctx, found, "before", _predictions(ctx)["before"], "evidence-not-the-start")


@check("s4-evidence.after", points=2, concept="evidence", needs=("s4-evidence.before",))
def evidence_after(ctx: Context) -> None:
    """profiles/after is of the schedule that was handed in for block-size, and faster than before."""
    with ctx.artifact(FOLDER).folder() as root:
        found = _profile(ctx, root, "after")
    predictions = _predictions(ctx)
    _require_prediction(ctx, found, "after", predictions["after"], "evidence-not-the-schedule")
    if predictions["after"].microseconds >= predictions["before"].microseconds:
        ctx.fail(
            say("after 不比 before 快：先做好 s4-tune。", "after is no faster than before: do s4-tune first."),
            misconception="evidence-no-gain",
        )


@check("s4-evidence.consistent", points=2, concept="evidence", needs=("s4-evidence.after",))
def evidence_consistent(ctx: Context) -> None:
    """Every file of both profiles is what the writer makes of these kernels: an edited one differs from the others."""
    predictions = _predictions(ctx)
    with ctx.artifact(FOLDER).folder() as root:
        for which, prediction in predictions.items():
            found = _profile(ctx, root, which)
            if found.header not in BLOCK:
                _differs(ctx, which, found.path.name, say("没有核数那一列", "the column of blocks is missing"))
            kernels = [_should_be(kernel, prediction) for kernel in found.kernels]
            with tempfile.TemporaryDirectory() as place:
                made = WRITERS[found.kind](place, kernels, header=found.header)
                _require_same_files(ctx, which, root / which, found.path, made)


def _require_same_files(ctx: Context, which: str, whole: Path, got: Path, want: Path) -> None:
    """The tables and the trace, byte for byte but for the ends of lines. What says where it comes from may differ."""
    for file in sorted(want.rglob("*")):
        if file.suffix not in (".csv", ".json") or file.name in ("profiler_metadata.json", "emulated.json"):
            continue
        place = file.relative_to(want)
        if not (got / place).is_file():
            ctx.fail(
                say(
                    "{folder}/{which} 里没有 {place}：profile 不完整，整个目录重新写一遍。",
                    "{folder}/{which} lacks {place}: the profile is incomplete, write the whole folder again.",
                    folder=FOLDER,
                    which=which,
                    place=str(place),
                ),
                misconception="evidence-incomplete",
                evidence={"case": f"{which}/{place}"},
            )
        ours = list(whole.rglob(file.name))
        if ours != [got / place]:
            _differs(ctx, which, str(place), say("同名的文件不止一个", "there is another file of that name"))
        theirs = (got / place).read_bytes().replace(b"\r\n", b"\n").splitlines()
        lines = file.read_bytes().splitlines()
        for number, line in enumerate(lines):
            if number >= len(theirs) or theirs[number] != line:
                _differs(ctx, which, str(place), say("第 {n} 行", "line {n}", n=number + 1))
        if len(theirs) > len(lines):
            _differs(ctx, which, str(place), say("多出来的行", "lines too many"))


def _differs(ctx: Context, which: str, place: str, where: object) -> None:
    ctx.fail(
        say(
            "{folder}/{which}/{place} 与同一份 profile 的其他文件不符（{where}）：重新写一遍，不要手改。",
            "{folder}/{which}/{place} disagrees with the other files of its profile ({where}): write it again, edit "
            "nothing by hand.",
            folder=FOLDER,
            which=which,
            place=place,
            where=where,
        ),
        misconception="evidence-edited",
        evidence={"case": f"{which}/{place}"},
    )
