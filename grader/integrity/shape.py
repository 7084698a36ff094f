"""A program as a row of tokens that stays the same when somebody renames, reformats, comments, annotates or reorders.

Variables and the program's own functions all become ``V``; what a library or the contract names (``exp``, ``amax``,
``online_softmax_update``) keeps its name, for that cannot be renamed. Comments, docstrings, annotations and imports
are left out. The operands of + and * are put in one order.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from grader.reading.submission import Cell, Program

BUILTINS = frozenset(dir(builtins))
OWN = "V"  # any name of the learner's choosing


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    cell: int | None  # as in Program: the cell's number, None in a .py
    line: int
    part: str | None  # the exercise's name when it stands in its definition


def tokens_of(program: Program, contract: Set[str]) -> list[Token]:
    """The tokens in the order of the text. ``contract``: the names that the exercises prescribe. Cells that are no
    Python are left out. Raises ``RecursionError`` for source nested beyond all measure."""
    known = BUILTINS | contract | _imported(program.cells)
    found: list[Token] = []
    for cell in program.cells:
        for statement in cell.tree.body if cell.tree else ():
            name = getattr(statement, "name", None)
            part = name if name in contract else None
            found += [Token(text, cell.number, line, part) for text, line in _Shape(known).of(statement)]
    return found


def _imported(cells: Iterable[Cell]) -> set[str]:
    nodes = (node for cell in cells if cell.tree for node in ast.walk(cell.tree))
    imports = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}


Row = list[tuple[str, int]]  # texts with their lines


class _Shape:
    """One statement as a row, its nodes in the order of the syntax tree."""

    def __init__(self, known: Set[str]):
        self.known = known

    def of(self, node: ast.AST, line: int = 1) -> Row:
        line = getattr(node, "lineno", line)
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            return method(node, line)
        if isinstance(node, ast.expr_context | ast.Import | ast.ImportFrom):
            return []
        return [(type(node).__name__, line), *self._all(ast.iter_child_nodes(node), line)]

    def _all(self, nodes: Iterable[ast.AST], line: int) -> Iterator[tuple[str, int]]:
        for node in nodes:
            yield from self.of(node, line)

    def _name(self, name: str) -> str:
        return name if name in self.known else OWN

    def _Name(self, node: ast.Name, line: int) -> Row:
        return [(self._name(node.id), line)]

    def _Constant(self, node: ast.Constant, line: int) -> Row:
        return [("S" if isinstance(node.value, str | bytes) else repr(node.value), line)]

    def _Attribute(self, node: ast.Attribute, line: int) -> Row:
        return [(".", line), *self.of(node.value, line), (node.attr, node.end_lineno or line)]

    def _Expr(self, node: ast.Expr, line: int) -> Row:
        return [] if isinstance(node.value, ast.Constant) else [("Expr", line), *self.of(node.value, line)]

    def _AnnAssign(self, node: ast.AnnAssign, line: int) -> Row:
        return [] if node.value is None else [("Assign", line), *self._all((node.target, node.value), line)]

    def _keyword(self, node: ast.keyword, line: int) -> Row:
        return [(f"{node.arg}=", line), *self.of(node.value, line)]

    def _BinOp(self, node: ast.BinOp, line: int) -> Row:
        kind = type(node.op).__name__
        operands = [self.of(operand, line) for operand in _operands(node)]
        if kind in ("Add", "Mult"):
            operands.sort(key=lambda row: [text for text, _ in row])
        return [(kind, line), *(token for operand in operands for token in operand)]

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> Row:
        head = [("def", line), (self._name(node.name), line)]
        return [
            *head,
            *self._all(node.decorator_list, line),
            *self._signature(node.args, line),
            *self._body(node, line),
        ]

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda, line: int) -> Row:
        return [("lambda", line), *self._signature(node.args, line), *self.of(node.body, line)]

    def _ClassDef(self, node: ast.ClassDef, line: int) -> Row:
        return [("class", line), *self._all((*node.decorator_list, *node.bases), line), *self._body(node, line)]

    def _body(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, line: int
    ) -> Iterator[tuple[str, int]]:
        return self._all(node.body, line)

    def _signature(self, given: ast.arguments, line: int) -> Row:
        count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
        defaults = [default for default in (*given.defaults, *given.kw_defaults) if default is not None]
        return [("arg", line)] * count + list(self._all(defaults, line))


def _operands(node: ast.BinOp) -> list[ast.expr]:
    """Of ``a + b + c`` all three; of anything that has an order, the two."""
    if not isinstance(node.op, ast.Add | ast.Mult):
        return [node.left, node.right]
    found: list[ast.expr] = []
    waiting: list[ast.expr] = [node.right, node.left]
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, ast.BinOp) and type(operand.op) is type(node.op):
            waiting += [operand.right, operand.left]
        else:
            found.append(operand)
    return found
