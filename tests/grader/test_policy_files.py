"""An exercise that reads a folder may open files, and use nothing that leads further."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from grader.reading.policy import Policy
from grader.reading.source import Source
from grader.reading.submission import Cell, Program

READS = {
    "pathlib": "from pathlib import Path\ndef f(p):\n    return Path(p, 'a.csv').read_text()",
    "open": "import os\ndef f(p):\n    return open(os.path.join(p, sorted(os.listdir(p))[0])).read()",
    "glob": "import glob\ndef f(p):\n    return glob.glob(p + '/*.csv')",
    "io": "import io\ndef f(p):\n    return io.open(p).read()",
}
ESCAPES = {
    "system": "import os\ndef f(p):\n    return os.system(p)",
    "os of pathlib": "import pathlib\ndef f(p):\n    return pathlib.os.system(p)",
    "os of os.path": "import os.path\ndef f(p):\n    return os.path.os.system(p)",
    "sys of glob": "import glob\ndef f(p):\n    return glob.sys.modules",
    "subprocess": "import subprocess\ndef f(p):\n    return subprocess.run(p)",
    "exec": "def f(p):\n    exec(open(p).read())",
    "environment": "import os\ndef f(p):\n    return os.environ",
}


def _policy(text: str) -> Policy:
    source = textwrap.dedent(text)
    return Policy(Source(Program(Path("x"), "0" * 64, [Cell(1, source, tree=ast.parse(source))])))


@pytest.mark.parametrize("case", READS)
def test_files_may_be_read_where_they_are_the_exercise(case: str) -> None:
    policy = _policy(READS[case])
    assert policy.violations("f", ["threads"], ["files"]) == []
    assert {violation.rule for violation in policy.violations("f", ["threads"])} == {"escape"}


@pytest.mark.parametrize("case", ESCAPES)
def test_nothing_else_comes_with_them(case: str) -> None:
    assert {violation.rule for violation in _policy(ESCAPES[case]).violations("f", [], ["files"])} >= {"escape"}
