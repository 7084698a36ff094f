"""What IPython adds to Python (magics, shell lines, help), taken out of a cell so that plain Python is left.

Line numbers stay as they are. A cell that is Python already is not touched.
"""

from __future__ import annotations

import ast
import functools
import re

from grader.syntax import silent, tree_of

KEEPS_BODY = {"time", "timeit", "capture", "prun", "memit"}  # cell magics whose body is the learner's Python
RUNS_STATEMENT = {"time", "timeit", "prun", "memit"}  # line magics that run the Python behind them

_MAGIC_CALL = re.compile(r"get_ipython\(\)\.(run_line_magic|system|getoutput|run_cell_magic)\(")


@functools.lru_cache(maxsize=8)  # a cell is asked for several times
def parse(source: str) -> ast.Module | SyntaxError:
    """The tree, or why there is none. Never raises, whatever the source."""
    try:
        return tree_of(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return SyntaxError(str(error) or "nested too deeply", ("", 1, 1, "", 1, 1))


def neutralise(source: str) -> tuple[str, str | None]:
    """Plain Python with the same line numbers, and the name of the cell magic that kept the whole cell from running
    (``"bash"``) or None. Source that is no Python even so comes back as it was, for the syntax error to be reported."""
    if isinstance(parse(source), ast.Module):
        return source, None
    lines = source.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = re.match(r"%%(\w*)", lines[first].lstrip())
    if magic:
        if magic[1] not in KEEPS_BODY:
            return "\n" * (len(lines) - 1), magic[1]
        lines[first] = ""
    with silent():
        return _python("\n".join(lines)), None


def _python(source: str) -> str:
    from IPython.core import inputtransformer2 as ipython

    lines = [line + "\n" for line in source.split("\n")]
    try:
        for transform in (ipython.leading_indent, ipython.classic_prompt, ipython.ipython_prompt):
            lines = transform(lines)
        manager = ipython.TransformerManager()
        for _ in range(len(lines) + 1):
            changed, after = manager.do_one_token_transform(lines)
            if not changed:
                break
            lines = _same_length(lines, after)
    except Exception:  # IPython stumbles over some text that is no Python; the syntax error is reported later
        return source
    plain = "".join(lines).removesuffix("\n")
    return plain if plain.count("\n") == source.count("\n") else source


def _same_length(before: list[str], after: list[str]) -> list[str]:
    """IPython joins continued lines into one call; put blank lines after it and plain Python in its place."""
    place = next((index for index, pair in enumerate(zip(before, after)) if pair[0] != pair[1]), len(after) - 1)
    blank = ["\n"] * (len(before) - len(after))
    return [*after[:place], _plain(after[place]), *blank, *after[place + 1 :]]


def _plain(line: str) -> str:
    """``%time f(x)`` -> ``f(x)``; ``files = !ls`` -> ``files = []``; any other magic -> ``pass``."""
    call = _MAGIC_CALL.search(line)
    if call is None:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    left = line[: call.start()]
    if left.strip():
        return f"{left}[]\n"
    statement = parse(line.strip())
    if call[1] == "run_line_magic" and isinstance(statement, ast.Module):
        arguments = [node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)]
        if len(arguments) == 2 and arguments[0] in RUNS_STATEMENT:
            body = re.sub(r"^(-\w+\s*\d*\s+)+", "", str(arguments[1]))
            if isinstance(parse(body), ast.Module) and body:
                return f"{indent}{body}\n"
    return f"{indent}pass\n"
