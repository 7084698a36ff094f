"""``profile write``: a prediction, or the steps of a training, as a profile folder of the real format."""

from __future__ import annotations

from pathlib import Path

from grader.commands.base import command, short, stop, tell
from grader.exit_codes import PASSED
from grader.profiling import asking
from grader.profiling.errors import refuse
from grader.profiling.model_of import about
from grader.text import listed, say
from kernels.perf import Refused, predict
from kernels.profiles import kernel_run, training_step, write_msprof, write_pytorch
from kernels.profiles.columns import BLOCK
from kernels.profiles.training import SCHEDULES as TRAINING_SCHEDULES

KINDS = {"pytorch": write_pytorch, "msprof": write_msprof}
STEPS = 3  # of a training: enough to see that they repeat
HEADERS = tuple(BLOCK)


def write(
    soc_name: str,
    shape_text: str,
    dtype: str,
    mask: str,
    schedule_name: str | None,
    with_training_step: bool,
    kind: str,
    header: str,
    out: Path | None,
) -> int:
    if kind not in KINDS:
        stop(say("--kind 只能是 {it}", "--kind takes {it}", it=listed(KINDS)))
    if header not in HEADERS:
        stop(say("--header 只能是 {it}", "--header takes {it}", it=listed(HEADERS)))
    soc = asking.chip(soc_name)
    shape = asking.size(shape_text, dtype, mask)
    asked = asking.order(schedule_name, soc, shape) if schedule_name else None  # a training has its own default
    default = TRAINING_SCHEDULES[soc.arch] if with_training_step else asking.usual(soc)
    schedule_name = schedule_name or default
    what = "training-step" if with_training_step else Path(schedule_name).stem.replace(":", "-")
    out = out or Path("profiles") / f"{soc.name.removeprefix('Ascend')}-{what}"
    try:
        if with_training_step:
            runs = training_step(soc, steps=STEPS, dtype=shape.dtype, schedule=asked)
            told = {"soc": soc.name, "schedule_name": schedule_name, "training_step": True}
        else:
            found = predict(soc, shape, asked or asking.order(default, soc, shape))
            runs, told = [kernel_run(found, shape, soc)], about(found, schedule_name)
    except Refused as error:
        raise refuse(error) from error
    try:
        made = KINDS[kind](out, runs, header=header, about=told)
    except FileExistsError:
        stop(
            say(
                "{out} 里已有 profile，没有覆盖。请用 --out 指定别的目录，或先移走它。",
                "{out} has a profile already, which was left as it is. Name another folder with --out, or move it.",
                out=short(out),
            )
        )
    tell(say("写好了：{made}", "written: {made}", made=short(made)))
    tell(
        say(
            "这是性能模型的预测，不是实测；文件格式与真实采集的相同。",
            "It is the performance model's prediction, not a measurement; the files have the format of real ones.",
        )
    )
    tell(say("网页：{it}", "as a page: {it}", it=command("profile", "open", made)))
    return PASSED
