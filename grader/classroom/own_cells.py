"""Graded cells that an instructor wrote by hand: run by nbgrader's own Execute, in a kernel behind a wall.

Their verdict is made in the kernel, beside the learner's code, as in plain nbgrader: it can be forged there. What the
wall keeps from that code is the course folder, the gradebook, the network and everything but a scratch folder.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader import utils
from nbgrader.preprocessors import Execute

from grader import paths
from grader.course import catalog
from grader.text import say
from grader.worker import confined

LOOKS_ON = ("check", "picture", "given-check")  # roles of cells that need not run here


def execute(nb: NotebookNode, resources: dict[str, Any], *, ours: set[str], parent: Any) -> None:
    """Run the notebook and take over the outputs of its hand-written graded cells: those not in ``ours``."""
    copy = nbformat.from_dict(nb)
    for cell in copy.cells:
        if cell.metadata.get("flashdojo", {}).get("role") in LOOKS_ON:
            cell.source = ""
    folder = Path(tempfile.mkdtemp(prefix="flashdojo-kernel-"))
    try:
        folder.chmod(0o755)
        _copy_files(Path(resources["metadata"]["path"]), folder)
        readable = _offer_npu(folder) if _on_npu(nb) else []
        problem = _run(copy, resources, folder, readable, parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for cell, ran in zip(nb.cells, copy.cells, strict=True):
        if utils.is_grade(cell) and not utils.is_solution(cell) and cell.cell_type == "code":
            if cell.metadata.nbgrader["grade_id"] in ours:
                continue
            cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
            if ran.execution_count is None and not any(output.output_type == "error" for output in ran.outputs):
                cell.outputs = [_not_run(problem)]  # nothing would mean full marks


def _copy_files(source: Path, folder: Path) -> None:
    """The files that were handed in or given with the assignment, next to which the code expects to run."""
    for file in sorted(source.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.suffix != ".ipynb":
            target = folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


def _on_npu(nb: NotebookNode) -> bool:
    stage = nb.metadata.get("flashdojo", {}).get("stage")
    return any(known.id == stage and known.device == "npu" for known in catalog.load(strict=False, checks=False).stages)


def _offer_npu(folder: Path) -> list[str]:
    """Let the kernel ``import kernels.ascend``, as the notebook's first cell does. Returns what it then has to read.
    The reference lies there too: hand-written cells are no proof in any stage."""
    (folder / "packages").mkdir()
    (folder / "packages" / "kernels").symlink_to(paths.ROOT / "kernels")
    startup = folder / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "npu.py").write_text(f"import sys\nsys.path.append({str(folder / 'packages')!r})\n", "utf-8")
    return [str(paths.ROOT / "kernels")]


def _run(nb: NotebookNode, resources: dict[str, Any], folder: Path, readable: list[str], parent: Any) -> str:
    """Executes in place; what went wrong with the kernel itself, else an empty string."""

    class Walled(AsyncKernelManager):
        def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
            return confined.command(readable, str(folder), super().format_kernel_cmd(extra_arguments))

    def walled(**options: Any) -> AsyncKernelManager:
        return Walled(transport="ipc", connection_file=str(folder / "kernel.json"), **options)

    runner = Execute(parent=parent, shutdown_kernel="immediate")  # ending gracefully, it would look for its children
    runner.create_kernel_manager = lambda: _given(runner, walled)
    try:
        runner.preprocess(nb, {**resources, "metadata": {**resources["metadata"], "path": str(folder)}})
    except Exception as error:  # the kernel died, or did not start
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def _given(runner: Execute, make: Any) -> AsyncKernelManager:
    runner.km = make(kernel_name=runner.kernel_name or "python3", config=runner.config)
    return runner.km


def _not_run(problem: str) -> NotebookNode:
    message = say(
        "这个单元没有运行：前面的代码让内核停止了。{problem}",
        "This cell did not run: what came before it stopped the kernel. {problem}",
        problem=problem,
    )
    return new_output("error", ename="NotRun", evalue=str(message), traceback=[str(message)])
