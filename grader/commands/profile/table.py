"""The commands of ``flashdojo profile``: names, options, help texts. What they do is in the modules beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from grader.commands.options import JsonOption
from grader.commands.options import in_language as _help


class _Group(TyperGroup):
    """``profile --real SCRIPT`` is ``profile real SCRIPT``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        first, _, script = args[0].partition("=") if args else ("", "", "")
        if first == "--real":
            args = ["real", *([script] if script else []), *args[1:]]
        return super().parse_args(ctx, args)


profile = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help=_help(
        "性能：预测一个算子多快、瓶颈在哪，生成和阅读 profile；--real SCRIPT 在真实 NPU 上采集",
        "Performance: how fast a kernel is and why, profiles written and read; --real SCRIPT records on an NPU",
    ),
)

SocOption = Annotated[
    str,
    typer.Option("--soc", metavar="NAME", help=_help("芯片：950PR、950DT、910B3、A3……", "950PR, 950DT, 910B3, A3 ...")),
]
ShapeOption = Annotated[
    str,
    typer.Option("--shape", metavar="B,N1,N2,S1,S2,D", help=_help("如 1,16,16,4096,4096,128", "1,16,16,4096,4096,128")),
]
DtypeOption = Annotated[str, typer.Option("--dtype", metavar="fp16|bf16", help=_help("元素类型", "element type"))]
MaskOption = Annotated[str, typer.Option("--mask", metavar="none|causal", help=_help("掩码", "the mask"))]
ScheduleOption = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="NAME|FILE",
        help=_help(
            "调度：v0……v8、example、minimal、cann、pto，或 JSON 文件"
            "（默认：950 用 v8，910B 用 cann；训练步在 950 上用 example）",
            "v0 ... v8, example, minimal, cann, pto, or a JSON file "
            "(default: v8 on a 950, cann on a 910B; training steps on a 950: example)",
        ),
    ),
]
FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help=_help("*_ascend_pt 或 PROF_* 目录", "*_ascend_pt or PROF_*"))
]
BeforeOption = Annotated[
    Path | None,
    typer.Option("--before", metavar="FOLDER", help=_help("与调优前的 profile 对比", "compare with this one")),
]

ChipOption = Annotated[
    str | None,
    typer.Option("--soc", metavar="NAME", help=_help("芯片，当文件里没有写时", "the chip, where the files do not say")),
]


@profile.command(
    help=_help("预测：时间、误差、各流水的忙碌比例、缓冲区、瓶颈", "time, error band, busy pipes, buffers, bound")
)
def predict(
    soc: SocOption = "950PR",
    shape: ShapeOption = "1,16,16,4096,4096,128",
    dtype: DtypeOption = "fp16",
    mask: MaskOption = "none",
    schedule: ScheduleOption = None,
    as_json: JsonOption = False,
) -> int:
    from grader.commands.profile.predict import predict

    return predict(soc, shape, dtype, mask, schedule, as_json)


@profile.command(help=_help("模型对每一条公开实测的预测", "the model's prediction beside every published measurement"))
def calibration(as_json: JsonOption = False) -> int:
    from grader.commands.profile.calibration import calibration

    return calibration(as_json)


@profile.command(help=_help("时间随块大小变化：一张表，一幅图", "time against tile size: a table and a picture"))
def sweep(
    soc: SocOption = "950PR",
    shape: ShapeOption = "1,16,16,4096,4096,128",
    dtype: DtypeOption = "fp16",
    mask: MaskOption = "none",
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            metavar="NAME|FILE",
            help=_help(
                "只改这个调度的块（默认：块、预取、缓冲一起选）", "vary its tiles only (default: tiles, preload, slots)"
            ),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help=_help("图的文件，如 sweep.html", "of the picture: sweep.html")),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    from grader.commands.profile.sweep import sweep

    return sweep(soc, shape, dtype, mask, schedule, out, as_json)


@profile.command(
    help=_help("由模型写出一个 profile 目录（绝不覆盖）", "make a profile folder from the model; never overwrites")
)
def write(
    soc: SocOption = "950PR",
    shape: ShapeOption = "1,16,16,4096,4096,128",
    dtype: DtypeOption = "fp16",
    mask: MaskOption = "none",
    schedule: ScheduleOption = None,
    training_step: Annotated[
        bool,
        typer.Option("--training-step", help=_help("小模型的完整训练步", "whole steps of the course's small model")),
    ] = False,
    kind: Annotated[
        str,
        typer.Option("--kind", metavar="pytorch|msprof", help=_help("哪种工具的格式", "format of which recorder")),
    ] = "pytorch",
    header: Annotated[
        str,
        typer.Option(
            "--header",
            metavar="block-num|block-dim",
            help=_help("列名：新版，或 CANN 8.3 及以前", "column names: new, or CANN 8.3 and older"),
        ),
    ] = "block-num",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help=_help(
                "写到该目录下（默认：profiles/芯片-调度）", "folder to write into (default: profiles/SOC-SCHEDULE)"
            ),
        ),
    ] = None,
) -> int:
    from grader.commands.profile.write import write

    return write(soc, shape, dtype, mask, schedule, training_step, kind, header, out)


@profile.command(
    help=_help("由 profile 生成网页：利用率、时间线、roofline、建议", "a page: utilisation, timeline, roofline, advice")
)
def report(
    folder: FolderArgument,
    before: BeforeOption = None,
    soc: ChipOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help=_help("网页文件（默认：目录旁）", "default: beside the folder")),
    ] = None,
) -> int:
    from grader.commands.profile.report import report

    return report(folder, before, out, soc)


@profile.command("open", help=_help("在浏览器中打开这个网页", "open that page in the browser"))
def open_(folder: FolderArgument, before: BeforeOption = None, soc: ChipOption = None) -> int:
    from grader.commands.profile.report import open_page

    return open_page(folder, before, soc)


@profile.command(
    help=_help("在这台机器的 NPU 上采集一个程序", "record a program on this machine's NPU"),
    context_settings={"ignore_unknown_options": True},
)
def real(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help=_help("Python 程序", "a Python program"))],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS...]", help=_help("程序自己的参数", "arguments of it"))
    ] = None,
    tool: Annotated[
        str,
        typer.Option("--tool", metavar="torch|msprof", help=_help("torch_npu.profiler 或 msprof", "which recorder")),
    ] = "torch",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help=_help("采集结果目录", "folder for the recording"))
    ] = None,
) -> int:
    from grader.commands.profile.real import real

    return real(script, arguments or [], tool, out)
