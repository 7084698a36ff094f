"""A real Jupyter kernel behind the walls of ``confined.py``: it works as kernels do, and reaches nothing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from outside import alive, let_through, wait_until

from grader.paths import ROOT
from grader.worker import confined, landlock, syscalls

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="the kernel has no Landlock")

PRELUDE = """
import os, socket, subprocess, signal, ctypes
def attempt(action):
    try: return "done: " + str(action())[:60]
    except BaseException as error: return type(error).__name__
"""

Run = Callable[[str], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    folder = tmp_path_factory.mktemp("k")
    let_through(folder)
    let_through(folder / "inside")
    shared = tmp_path_factory.mktemp("shared")
    (shared / "data.txt").write_text("for the cells")
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager = KernelManager(transport="ipc", connection_file=str(folder / "kernel.json"))
    manager._kernel_spec = KernelSpec(
        argv=confined.command([str(shared)], str(folder), argv, memory=1500), display_name="c", language="python"
    )
    manager.shared, manager.folder = shared, folder
    manager.start_kernel(cwd=str(ROOT))
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def run(kernel: KernelManager) -> Iterator[Run]:
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def execute(code: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []

        def hook(message: dict[str, Any]) -> None:
            content, kind = message["content"], message["msg_type"]
            if kind == "stream":
                found.append((content["name"], content["text"]))
            elif kind == "execute_result":
                found.append(("result", content["data"]["text/plain"]))
            elif kind == "error":
                found.append((content["ename"], content["evalue"]))

        client.execute_interactive(code, output_hook=hook, timeout=60)
        return found

    assert execute(PRELUDE) == []
    yield execute
    client.stop_channels()


def value(found: list[tuple[str, str]]) -> Any:
    ((kind, text),) = found
    assert kind == "result", found
    return ast.literal_eval(text)


def test_a_confined_kernel_is_a_kernel(run):
    assert run("print('x')") == [("stdout", "x\n")]
    assert run("1 / 0") == [("ZeroDivisionError", "division by zero")]
    assert value(run("import torch; x = torch.ones(64, 64, requires_grad=True); (x @ x).sum().backward()\n"
                     "float(x.grad[0, 0])")) == 128.0  # fmt: skip
    assert value(run("from concurrent.futures import ThreadPoolExecutor\n"
                     "list(ThreadPoolExecutor(2).map(abs, [-1, 2]))")) == [1, 2]  # fmt: skip


def test_a_confined_kernel_reads_what_it_is_given_and_writes_its_folder_only(run, kernel, tmp_path):
    tmp_path.chmod(0o777)
    cell = f"""
[attempt(lambda: open("{kernel.shared}/data.txt").read()), attempt(lambda: open("mine", "w").write("x")), os.getcwd()]
"""
    assert value(run(cell)) == ["done: for the cells", "done: 1", str(kernel.folder)]
    assert (kernel.folder / "mine").read_text() == "x"
    closed = [f"{ROOT}/README.md", f"{ROOT}/solutions", "/etc/passwd", "/root/.profile", "/proc/1/status",
              f"/proc/{os.getpid()}/environ", "/proc/self/mem", str(kernel.folder.parent)]  # fmt: skip
    cell = f"[attempt(lambda: os.listdir(p) if os.path.isdir(p) else open(p, 'rb').read(9)) for p in {closed!r}]"
    assert set(value(run(cell))) == {"PermissionError"}
    written = [str(tmp_path / "x"), "/tmp/theirs", "/dev/shm/theirs", str(kernel.shared / "x"), sys.prefix + "/x"]
    assert set(value(run(f"[attempt(lambda: open(p, 'w')) for p in {written!r}]"))) == {"PermissionError"}


def test_a_confined_kernel_leaves_no_mark_on_a_file(run, kernel):
    data = kernel.shared / "data.txt"
    data.chmod(0o666)
    before = data.stat()
    tried = ("os.chmod(p, 0o600)", "os.utime(p, (1, 1))", "os.truncate(p, 0)", "os.setxattr(p, 'user.x', b'1')")
    run("\n".join(f"p = {str(data)!r}; attempt(lambda: {action})" for action in tried))
    after = data.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_size) == (before.st_mode, before.st_mtime_ns, before.st_size)
    assert os.listxattr(data) == []


def test_a_confined_kernel_starts_and_reaches_nobody(run, kernel):
    if syscalls.pyseccomp is None:
        pytest.skip("no libseccomp")
    port = kernel.get_connection_info()["shell_port"]
    cell = f"""
[attempt(f) for f in (
    os.fork, lambda: subprocess.run(["/bin/true"]), lambda: os.kill({os.getpid()}, 0), lambda: os.kill(-1, 0),
    lambda: socket.socket(), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    lambda: socket.socket(socket.AF_UNIX).connect("kernel-ipc-{port}"), lambda: socket.socket(socket.AF_NETLINK),
    lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), lambda: os.pidfd_open({os.getpid()}),
    lambda: os.setpriority(os.PRIO_PROCESS, {os.getpid()}, 19))]
"""
    assert set(value(run(cell))) <= {"PermissionError", "OSError"}


def test_a_confined_kernel_has_limits_and_no_rights(run):
    assert value(run("attempt(lambda: b'x' * (1500 << 20))")) == "MemoryError"
    user, capabilities, environment = value(
        run("[os.getuid(), attempt(lambda: os.chown('/', 0, 0)), sorted(n for n in os.environ if 'DOJO' in n)]")
    )
    assert (user != 0) or os.geteuid() != 0
    assert capabilities == "PermissionError"
    assert environment == ["FLASHDOJO_NPU"]


def test_on_an_ascend_machine_it_has_the_emulated_npu(tmp_path):
    let_through(tmp_path)
    (tmp_path / "site" / "torch_npu").mkdir(parents=True)
    (tmp_path / "site" / "torch_npu" / "__init__.py").write_text("raise ImportError('no driver in sight')")
    (tmp_path / "site" / "kernels").symlink_to(ROOT / "kernels")
    (tmp_path / "inside").mkdir()
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import torch, kernels.ascend, torch_npu\n"
        "print(torch_npu.__emulated__, torch.ones(1).npu().device)"
    )
    readable = [str(ROOT / "kernels"), str(tmp_path / "site")]
    argv = confined.command(readable, str(tmp_path / "inside"), [sys.executable, "-c", code])
    run = subprocess.run(argv, capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("True npu:0\n", 0), run.stderr


def test_a_confined_program_ends_with_its_parent(tmp_path):
    tmp_path.chmod(0o711)
    argv = confined.command([], str(tmp_path), [sys.executable, "-c", "import time; time.sleep(60)"])
    script = f"import subprocess, time; print(subprocess.Popen({argv!r}).pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.stdout.close()

    def command_runs() -> bool:  # while a process becomes another program, its command line is empty
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"sleep" in line and b"confined.py" not in line

    assert wait_until(command_runs)
    parent.kill()
    parent.wait()
    assert wait_until(lambda: not alive(pid))


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--write", "/nowhere", "--"], 2, "no COMMAND"),
        (["--", "/bin/true"], 2, "--write"),
        (["--write", "/nowhere", "--", "/bin/true"], confined.REFUSED, "/nowhere"),
        (["--write", "{folder}", "--", "/no/such"], confined.REFUSED, "No such file"),
    ],
)
def test_what_cannot_be_confined_is_not_run(tmp_path, arguments, code, line):
    given = [word.format(folder=tmp_path) for word in arguments]
    ended = subprocess.run([sys.executable, "-I", confined.__file__, *given], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert line in ended.stderr
    assert "Traceback" not in ended.stderr
