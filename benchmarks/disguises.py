"""What somebody does to a copied program so that it looks like their own. None of it changes what it computes."""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Callable, Collection

Disguise = Callable[[str, Collection[str], random.Random], str]  # source, names of the contract


class _Rename(ast.NodeTransformer):
    """New names for variables and helpers, no annotations."""

    def __init__(self, kept: Collection[str]):
        self.kept, self.given = kept, dict[str, str]()

    def _new(self, name: str) -> str:
        return name if name in self.kept else self.given.setdefault(name, f"my_{len(self.given)}")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._new(node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name, node.returns = self._new(node.name), None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def rename(source: str, contract: Collection[str], _: random.Random) -> str:
    tree = ast.parse(source)
    kept = {*contract, *dir(builtins), "self", "ctx", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kept |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.arg | ast.keyword):
            kept.add(node.arg or "")
        elif isinstance(node, ast.ClassDef):
            kept |= {node.name, *(inner.name for inner in node.body if isinstance(inner, ast.FunctionDef))}
    return ast.unparse(_Rename(kept).visit(tree))


def reorder(source: str, _: Collection[str], rng: random.Random) -> str:
    """The functions in another order."""
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    rng.shuffle(functions)
    replaced = iter(functions)
    tree.body = [next(replaced) if isinstance(node, ast.FunctionDef) else node for node in tree.body]
    return ast.unparse(tree)


def recomment(source: str, _: Collection[str], rng: random.Random) -> str:
    """Other docstrings, other comments, another layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("My own words."))
    lines = []
    for line in ast.unparse(ast.fix_missing_locations(tree)).split("\n"):
        lines.append(line)
        if line.strip() and rng.random() < 0.3:
            lines.append("# my own thought")
    return "\n".join(lines)


class _Pad(ast.NodeTransformer):
    def __init__(self, every: int):
        self.every = every

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = self._padded(node.body)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.body = self._padded(node.body)
        return node

    def _padded(self, body: list[ast.stmt]) -> list[ast.stmt]:
        padded = []
        for number, statement in enumerate(body):
            if number % self.every == self.every - 1:
                padded.append(ast.parse("unused = 0").body[0])
            padded.append(statement)
        return padded


def pad(every: int) -> Disguise:
    """A statement that does nothing before every n-th one of a body."""
    return lambda source, _, rng: ast.unparse(ast.fix_missing_locations(_Pad(every).visit(ast.parse(source))))


class _Swap(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.BinOp:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult):
            node.left, node.right = node.right, node.left
        return node


def swap(source: str, _: Collection[str], rng: random.Random) -> str:
    """``b * a`` for ``a * b``."""
    return ast.unparse(_Swap().visit(ast.parse(source)))


def together(*parts: Disguise) -> Disguise:
    def disguise(source: str, contract: Collection[str], rng: random.Random) -> str:
        for part in parts:
            source = part(source, contract, rng)
        return source

    return disguise


USUAL = together(rename, reorder, recomment)
DISGUISES: dict[str, Disguise] = {
    "other comments and layout": recomment,
    "variables renamed": rename,
    "functions reordered": reorder,
    "all three": USUAL,
    "all three, factors swapped": together(USUAL, swap),
    "all three, an idle line before every 4th": together(pad(4), USUAL),
    "all three, an idle line before every 2nd": together(pad(2), USUAL),
}
