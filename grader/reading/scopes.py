"""Which variable a name in Python source means: the scopes of a module, found without running it.

Everything walks with an explicit stack, so no depth of nesting in a submission can exhaust the judge's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scoped = Function | ast.ClassDef | Comprehension

# Nodes without anything below them that say no more than their parent's type does
_BARE = frozenset(
    kind
    for base in (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    for kind in base.__subclasses__()
)
_SCOPED = frozenset(Scoped.__args__)
_BINDING = frozenset({
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign,
    ast.NamedExpr, ast.Name, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.For,
    ast.comprehension, ast.withitem,
})  # fmt: skip


@dataclass(eq=False)
class Scope:
    """A function, class or comprehension; ``parent`` None is the module's."""

    node: Scoped
    parent: Scope | None
    names: set[str]  # bound here
    # name -> the expressions or imports it gets its value from, each with the scope that is evaluated in
    aliases: dict[str, list[tuple[ast.AST, Scope | None]]] = field(default_factory=dict)

    def lookup(self, name: str) -> Scope | None:
        """The scope that binds ``name`` as seen from here; None when that is the module (or nobody)."""
        scope: Scope | None = self
        here = True
        while scope is not None:
            if name in scope.names and (here or not isinstance(scope.node, ast.ClassDef)):
                return scope
            here = here and isinstance(scope.node, Comprehension)
            scope = scope.parent
        return None


def walk(root: ast.AST, scope: Scope | None = None) -> Iterator[tuple[ast.AST, Scope | None]]:
    """Every node below and including ``root``, in source order, with the scope its names are looked up in."""
    stack: list[tuple[ast.AST, Scope | None]] = [(root, scope)]
    while stack:
        node, scope = stack.pop()
        yield node, scope
        if type(node) in _SCOPED:
            assert isinstance(node, Scoped)
            outside, inside = _split(node)
            inner = _scope(node, scope)
            stack += [(child, inner) for child in reversed(inside)]
            stack += [(child, scope) for child in reversed(outside)]
        else:
            stack += [(child, scope) for child in reversed(_children(node))]


def _children(node: ast.AST) -> list[ast.AST]:
    """``ast.iter_child_nodes`` without the bare ones."""
    found = []
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST) and type(item) not in _BARE]
        elif isinstance(value, ast.AST) and type(value) not in _BARE:
            found.append(value)
    return found


def _split(node: Scoped) -> tuple[list[ast.AST], list[ast.AST]]:
    """The children evaluated in the enclosing scope, and those evaluated in the node's own."""
    if isinstance(node, ast.Lambda):
        return [node.args], [node.body]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = [node.returns] if node.returns else []
        return [*node.decorator_list, node.args, *returns], list(node.body)
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords], list(node.body)
    first = node.generators[0]
    results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return [first.iter], [first.target, *first.ifs, *node.generators[1:], *results]


def _scope(node: Scoped, parent: Scope | None) -> Scope:
    scope = Scope(node, parent, set())
    elsewhere: set[str] = set()
    if isinstance(node, Function):
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [(a.arg, d) for a, d in zip(reversed(positional), reversed(arguments.defaults))]
        defaults += [(a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults) if d is not None]
        for argument in (*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if argument is not None:
                scope.names.add(argument.arg)
        for name, default in defaults:
            scope.aliases.setdefault(name, []).append((default, parent))
    for child in _own_nodes(node):
        if isinstance(child, ast.Global | ast.Nonlocal):
            elsewhere.update(child.names)
        for name, value in bindings(child):
            scope.names.add(name)
            if value is not None:
                scope.aliases.setdefault(name, []).append((value, scope))
    scope.names -= elsewhere
    return scope


def _own_nodes(node: Scoped) -> Iterator[ast.AST]:
    """The nodes that run in the node's own scope, nested scopes shown but not entered (a walrus leaves a
    comprehension)."""
    stack = list(_split(node)[1])
    while stack:
        child = stack.pop()
        yield child
        if isinstance(child, Comprehension):
            stack += [inner for inner in ast.walk(child) if isinstance(inner, ast.NamedExpr)]
        elif isinstance(child, Scoped):
            stack += _split(child)[0]
        else:
            stack += _children(child)


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """The names that this very node binds, each with the expression or import it comes from, where that is plain."""
    if type(node) not in _BINDING:
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, None
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name.split(".")[0], node
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        if node.value is not None:
            yield from _pairs(node.target, node.value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id, None
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name, None
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest, None
    elif isinstance(node, ast.For | ast.comprehension):
        yield from _pairs(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _pairs(node.optional_vars, node.context_expr)


def _pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
    ):
        for part, source in zip(target.elts, value.elts):
            yield from _pairs(part, source)


def root(node: ast.AST) -> ast.AST:
    """``a`` of ``a.b[0].c``."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node


def literal(node: ast.AST) -> str | None:
    """The text of a string constant, also one glued together from constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts: list[str] = []
        current: ast.AST = node
        while isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
            if not isinstance(current.right, ast.Constant) or not isinstance(current.right.value, str):
                return None
            parts.append(current.right.value)
            current = current.left
        if isinstance(current, ast.Constant) and isinstance(current.value, str):
            return "".join([current.value, *reversed(parts)])
        return None
    if isinstance(node, ast.JoinedStr):
        pieces = [piece.value for piece in node.values if isinstance(piece, ast.Constant)]
        return "".join(map(str, pieces)) if len(pieces) == len(node.values) else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "join"
        and isinstance(node.func.value, ast.Constant)
        and len(node.args) == 1
        and isinstance(node.args[0], ast.List | ast.Tuple)
    ):
        items = [item.value for item in node.args[0].elts if isinstance(item, ast.Constant)]
        if len(items) == len(node.args[0].elts):
            return str(node.func.value.value).join(map(str, items))
    return None
