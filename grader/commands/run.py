"""``run``: a program on the NPU of this machine, or on the emulated one: where there is none, or where
FLASHDOJO_NPU=emulated asks for it.

The program gets a process of its own, as if Python had been called on it: its arguments, its exit code, its traceback.
That process is this module too (``python -m grader.commands.run SCRIPT ARGS``).
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

from grader import npu
from grader.commands.base import note, short, stop
from grader.exit_codes import USAGE
from grader.text import Text, answer_in, say

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"  # whether torch imports other people's devices by itself


def run(script: Path, arguments: list[str]) -> int:
    """Become the program. Returns only by an error."""
    if script.suffix == ".ipynb":
        stop(
            say(
                "run 运行 .py 程序。笔记本请在 Jupyter 里打开。",
                "run takes a .py program. Open a notebook in Jupyter instead.",
            )
        )
    if not script.is_file():
        stop(say("没有这个程序：{name}", "no such program: {name}", name=short(script)))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", __name__, str(script), *arguments])


def _main(script: str, *arguments: str) -> None:
    answer_in(None)
    before = os.environ.get(AUTOLOAD)
    os.environ[AUTOLOAD] = "0"  # else a torch_npu takes its place before it can be asked whether it may
    try:
        import kernels.ascend
    except (ImportError, RuntimeError, ValueError) as error:
        note(f"flashdojo: {_what_to_do(error)}")
        sys.exit(USAGE)
    del os.environ[AUTOLOAD]
    if before is not None:
        os.environ[AUTOLOAD] = before
    if kernels.ascend.is_emulated():
        os.environ["FLASHDOJO_NPU"] = "emulated"  # for what the program starts in its turn
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    sys.excepthook = _from_the_program_on(script)
    program = types.ModuleType("__main__")
    program.__file__ = script
    sys.modules["__main__"] = program
    exec(compile(Path(script).read_bytes(), script, "exec"), vars(program))


def _what_to_do(error: BaseException) -> Text:
    situation = getattr(error, "situation", None)  # of a kernels.machine.NpuError
    why = npu.problem_of(situation.report()) if situation is not None else None
    return say("NPU 无法就绪：{why}", "the NPU cannot be made ready: {why}", why=why or error)


def _from_the_program_on(script: str) -> Any:
    """Tracebacks that begin in the program, without the lines that started it."""

    def show(kind: Any, error: Any, traceback: Any) -> None:
        first = traceback
        while first is not None and first.tb_frame.f_code.co_filename != script:
            first = first.tb_next
        sys.__excepthook__(kind, error.with_traceback(first or traceback), first or traceback)

    return show


if __name__ == "__main__":
    _main(*sys.argv[1:])
