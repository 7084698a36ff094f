"""A submission's source as a whole: what it defines at top level, and what each definition rests on.

Nothing is executed. The call graph is an over-approximation: of a name defined twice, both definitions count.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grader.reading.scopes import Scope, bindings, literal, root, walk
from grader.reading.submission import Cell, Program
from grader.subject import Where

EVERY_NAME = "*"  # a statement that may rebind any name, such as globals()[key] = ...
DEEPEST = 20  # links of one chain of attributes and calls
LONGEST = 10  # names that stand for names
MOST = 64  # meanings that one name may have
BUILTINS = {*dir(builtins), "__builtins__"}
ADDS = {
    "append", "extend", "insert", "update", "add", "setdefault", "register", "register_forward_hook", "__setitem__",
    "__setattr__",
}  # methods by which a thing takes in what it is given


@dataclass(eq=False)
class Statement:
    """A simple statement at module level, or the head of a compound one."""

    node: ast.AST
    nodes: list[ast.AST]
    cell: Cell

    @cached_property
    def seen(self) -> list[tuple[ast.AST, Scope | None]]:
        """Every node in it, with its scope."""
        return [pair for node in self.nodes for pair in walk(node)]


@dataclass(eq=False)
class Unit:
    """Code that gives a top-level name its value, or changes it: a statement, or one expression of it."""

    name: str
    statement: Statement
    value: ast.AST | None = None
    path: str | None = None  # of an import: "torch.nn.functional"

    @cached_property
    def seen(self) -> list[tuple[ast.AST, Scope | None]]:
        return list(walk(self.value)) if self.value is not None else self.statement.seen

    @cached_property
    def references(self) -> set[str]:
        """The top-level names it uses."""
        return {
            node.id
            for node, scope in self.seen
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and is_top_level(node.id, scope)
        }


class Source:
    """``program`` must not change afterwards."""

    def __init__(self, program: Program):
        self.cells = program.cells
        self.statements = [s for cell in program.cells if cell.tree for s in _statements(cell.tree.body, cell)]
        self.units: dict[str, list[Unit]] = {}
        self.stars: list[tuple[str, int]] = []  # modules imported with *, and at which statement
        self._last: dict[str, int] = {}  # the statement that binds a name last
        self._known: dict[tuple[Scope | None, str], set[str]] = {}
        self._links = 0  # of the chain of names that is being followed
        for position, statement in enumerate(self.statements):
            self._bind(statement, position)
        for statement in self.statements:
            self._changes(statement)
        self._known.clear()

    def defines(self, name: str) -> bool:
        return name in self.units or bool(self.units.get(EVERY_NAME))

    def reach(self, name: str) -> list[Unit]:
        """The units that ``name`` rests on, its own first."""
        found: dict[int, Unit] = {}
        waiting, known = [name, EVERY_NAME], {name, EVERY_NAME}
        while waiting:
            for unit in self.units.get(waiting.pop(0), ()):
                found[id(unit)] = unit
                for other in sorted(unit.references - known):
                    known.add(other)
                    waiting.append(other)
        return list(found.values())

    def meaning(self, name: str) -> set[str]:
        """The foreign things that a top-level name may stand for once everything has run."""
        last = self._last.get(name, -1)
        if last >= 0 and isinstance(self.statements[last].node, ast.FunctionDef | ast.ClassDef):
            return {f"{module}.{name}" for module, position in self.stars if position > last}
        return self.paths(ast.Name(name, ast.Load()), None)

    def uses(self, name: str) -> set[str]:
        """The top-level names that ``name`` rests on, with itself."""
        return {unit.name for unit in self.reach(name)}

    def is_own(self, node: ast.AST, scope: Scope | None) -> bool:
        """Whether an expression surely means something of the submission's: ``self``, a function or class of it."""
        node = root(node)
        while isinstance(node, ast.Call):
            node = root(node.func)
        if not isinstance(node, ast.Name):
            return False
        if node.id in ("self", "cls", "super"):
            return True
        if not is_top_level(node.id, scope):
            return False
        units = self.units.get(node.id, [])
        return bool(units) and all(isinstance(unit.statement.node, ast.FunctionDef | ast.ClassDef) for unit in units)

    def paths(self, node: ast.AST, scope: Scope | None, depth: int = 0) -> set[str]:
        """The dotted names outside the submission that an expression may mean: ``F.softmax`` ->
        {"torch.nn.functional.softmax"}. Empty when it is the submission's own or cannot be told."""
        if depth > DEEPEST:
            return set()
        if isinstance(node, ast.Name):
            return self._name_paths(node.id, scope)
        if isinstance(node, ast.Attribute):
            return {f"{path}.{node.attr}" for path in self.paths(node.value, scope, depth + 1)}
        if isinstance(node, ast.Subscript):
            key = literal(node.slice)
            bases = self.paths(node.value, scope, depth + 1)
            if key is not None and "sys.modules" in bases:
                return {key}
            return {f"{path.removesuffix('.__dict__')}.{key if key is not None else '[]'}" for path in bases}
        if isinstance(node, ast.Call):
            return self._call_paths(node, scope, depth)
        if isinstance(node, ast.IfExp):
            return self.paths(node.body, scope, depth + 1) | self.paths(node.orelse, scope, depth + 1)
        if isinstance(node, ast.BoolOp):
            return {path for value in node.values for path in self.paths(value, scope, depth + 1)}
        if isinstance(node, ast.NamedExpr):
            return self.paths(node.value, scope, depth + 1)
        return set()

    def _name_paths(self, name: str, scope: Scope | None) -> set[str]:
        home = scope.lookup(name) if scope else None
        key = (home, name)
        if key not in self._known:
            if self._links > LONGEST:
                return set()
            self._known[key] = set()  # what a name gets from itself (x = x.view(...)) adds nothing
            self._links += 1
            found = self._local_paths(name, home) if home else self._global_paths(name)
            self._links -= 1
            self._known[key] = set(sorted(found)[:MOST])
        return self._known[key]

    def _local_paths(self, name: str, home: Scope) -> set[str]:
        found: set[str] = set()
        for value, where in home.aliases.get(name, ()):
            if isinstance(value, ast.Import | ast.ImportFrom):
                found.add(_import_path(value, name))
            else:
                found |= self.paths(value, where)
        return found

    def _global_paths(self, name: str) -> set[str]:
        found: set[str] = set()
        units = self.units.get(name, [])
        for unit in units:
            if unit.path is not None:
                found.add(unit.path)
            elif unit.value is not None:
                found |= self.paths(unit.value, None)
        last = self._last.get(name, -1)
        stars = {f"{module}.{name}" for module, position in self.stars if position > last}
        if not units and name in BUILTINS:
            stars.add(f"builtins.{name}")
        return found | stars

    def _call_paths(self, node: ast.Call, scope: Scope | None, depth: int) -> set[str]:
        called = self.paths(node.func, scope, depth + 1)
        text = literal(node.args[-1]) if node.args else None
        if "builtins.getattr" in called and len(node.args) in (2, 3):
            name = literal(node.args[1])
            return {f"{path}.{name}" for path in self.paths(node.args[0], scope, depth + 1)} if name else set()
        if called & {"builtins.__import__", "importlib.import_module"} and text:
            return {text}
        if "builtins.vars" in called and node.args:
            return {f"{path}.__dict__" for path in self.paths(node.args[0], scope, depth + 1)}
        return {f"{path}()" for path in called}

    def syntax_error_near(self, name: str) -> tuple[Where, str] | None:
        """The syntax error that keeps ``name`` from being defined: in the cell that speaks of it, else the first."""
        broken = [cell for cell in self.cells if cell.error is not None]
        if not broken:
            return None
        defining = re.compile(rf"\b(def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", re.MULTILINE)
        cell = next((cell for cell in broken if defining.search(cell.source)), broken[0])
        assert cell.error is not None
        line = (cell.error.lineno or 1) + cell.first_line - 1
        return Where(cell.number, max(line, 1)), f"SyntaxError: {cell.error.msg}"

    def defined_at(self, name: str, place: Where) -> bool:
        """Whether the statement that defines ``name`` includes this place."""
        return any(
            unit.statement.cell.number == place.cell and place.line in _lines(unit.statement.node)
            for unit in self.units.get(name, ())
        )

    def _add(self, name: str, *unit: Any) -> None:
        self.units.setdefault(name, []).append(Unit(name, *unit))

    def _bind(self, statement: Statement, position: int) -> None:
        plain: set[str] = set()
        for node, scope in statement.seen:
            if scope is not None:
                continue
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                self.stars.append((node.module or "", position))
            for name, value in bindings(node):
                self._last[name] = position
                if isinstance(value, ast.Import | ast.ImportFrom):
                    self._add(name, statement, value, _import_path(value, name))
                    plain.add(name)
                elif value is not None and isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                    self._add(name, statement, value)
                    plain.add(name)
                elif name not in plain:
                    self._add(name, statement)
                    plain.add(name)

    def _changes(self, statement: Statement) -> None:
        """Names that the statement changes without binding them at module level."""
        changed: set[str] = set()
        for node, scope in statement.seen:
            if isinstance(node, ast.Global):
                changed.update(node.names)
            elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                changed |= self._changed_by_store(node, scope)
            elif isinstance(node, ast.Call):
                changed |= self._changed_by_call(node, scope)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):  # @softmax.register
                hooks = [d for d in node.decorator_list if isinstance(d, ast.Attribute) and d.attr in ADDS]
                changed.update(*(self._variable(hook, scope) for hook in hooks))
        for name in sorted(changed):
            self._add(name, statement)

    def _changed_by_store(self, node: ast.Attribute | ast.Subscript, scope: Scope | None) -> set[str]:
        if self._is_namespace(node.value, scope):
            key = literal(node.slice) if isinstance(node, ast.Subscript) else node.attr
            return {key or EVERY_NAME}
        return self._variable(node, scope)

    def _changed_by_call(self, node: ast.Call, scope: Scope | None) -> set[str]:
        called = self.paths(node.func, scope) if isinstance(node.func, ast.Name) else set()
        if called & {"builtins.setattr", "builtins.delattr"} and node.args:
            if self._is_namespace(node.args[0], scope):
                return {(literal(node.args[1]) if len(node.args) > 1 else None) or EVERY_NAME}
            return self._variable(node.args[0], scope)
        if not isinstance(node.func, ast.Attribute):
            return set()
        if self._is_namespace(node.func.value, scope):
            return {EVERY_NAME} if node.func.attr in ADDS else set()
        names = self._variable(node.func, scope)
        return {
            name for name in names if node.func.attr in ADDS or not self.is_own(ast.Name(name, ast.Load()), None)
        }

    def _variable(self, node: ast.AST, scope: Scope | None) -> set[str]:
        """The top-level name, no import, at the root of an expression."""
        base = root(node)
        if not isinstance(base, ast.Name) or not is_top_level(base.id, scope):
            return set()
        units = self.units.get(base.id, [])
        return {base.id} if any(unit.path is None for unit in units) else set()

    def _is_namespace(self, node: ast.AST, scope: Scope | None) -> bool:
        """``globals()`` and its other spellings."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            return name == "globals" or (not node.args and scope is None and name in ("vars", "locals"))
        if isinstance(node, ast.Attribute) and node.attr == "user_ns":
            return True
        return bool(self.paths(node, scope) & {"__main__", "__main__.__dict__", "submission", "submission.__dict__"})


def is_top_level(name: str, scope: Scope | None) -> bool:
    return scope is None or scope.lookup(name) is None


def _statements(body: list[ast.stmt], cell: Cell) -> Iterator[Statement]:
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        blocks = [getattr(node, name, []) for name in ("body", "handlers", "orelse", "finalbody", "cases")]
        compound = ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try | ast.TryStar | ast.With | ast.AsyncWith
        if not isinstance(node, compound | ast.Match | ast.ExceptHandler | ast.match_case):
            yield Statement(node, [node], cell)
            continue
        inner = [child for block in blocks for child in block]
        nested = {id(child) for child in inner}
        head = [child for child in ast.iter_child_nodes(node) if id(child) not in nested]
        if head or isinstance(node, ast.ExceptHandler):
            yield Statement(node, head, cell)
        stack += reversed(inner)


def _import_path(node: ast.Import | ast.ImportFrom, name: str) -> str:
    for alias in node.names:
        if (alias.asname or alias.name.split(".")[0]) == name:
            if isinstance(node, ast.ImportFrom):
                return f"{'.' * node.level}{node.module or ''}.{alias.name}"
            return alias.name if alias.asname else name
    return name


def _lines(node: ast.AST) -> range:
    """The lines of a statement, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    first = min(getattr(part, "lineno", 1) for part in (node, *decorators))
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)
