"""The source itself as proof: what an exercise's code uses although the exercise forbids it.

Only code that the exercise rests on is judged (scratch cells may compare with the library as they like), except for
statements that reach into foreign modules: those concern every exercise.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from grader.reading import forbidden
from grader.reading.scopes import Scope, literal
from grader.reading.source import Source, Statement, Unit
from grader.subject import Where, position
from grader.text import Text

Seen = list[tuple[ast.AST, Scope | None]]

LOOKS_UP = {"builtins.getattr", "builtins.object.__getattribute__", "builtins.type.__getattribute__"}
LISTS = {"builtins.vars", "builtins.dir"}
_TALK = {"print", "warn", "info", "debug", "warning", "error", "display"}  # calls whose strings are for people


@dataclass(frozen=True)
class Violation:
    rule: str  # of grader.course.catalog.RULES, or escape, reference, tampering
    what: str  # the dotted name
    where: Where

    @property
    def message(self) -> Text:
        at = position(self.where)
        told = forbidden.MESSAGES[self.rule]
        return Text(f"{at.zh}{told.zh.format(what=self.what)}", f"{at.en} {told.en.format(what=self.what)}")


class Policy:
    """Judges the exercises of one submission; what is found out about a definition is kept for the next exercise."""

    def __init__(self, source: Source):
        self.source = source
        self._uses: dict[Unit, list[tuple[str, str, Where]]] = {}
        self._tampering: list[Violation] | None = None

    def violations(self, name: str, forbid: Collection[str], allow: Collection[str] = ()) -> list[Violation]:
        """What ``name``'s code uses against the rules ``forbid`` and those of every exercise, but for what ``allow``
        lets it; tampering anywhere."""
        units = self.source.reach(name)
        uses = [use for unit in units for use in self._uses_of(unit)]
        if units:  # the name itself may be a foreign thing
            defined = units[0].statement
            uses += [
                (rule, path, _where(defined, defined.node))
                for path in sorted(self.source.meaning(name))
                for rule in sorted(forbidden.rules_of_path(path))
            ]
        if "files" in allow:
            uses = [use for use in uses if use[0] != "escape" or not forbidden.reads_files(use[1])]
        rules = {*forbid, *forbidden.ALWAYS}
        return [Violation(*use) for use in uses if use[0] in rules] + self.tampering()

    def tampering(self) -> list[Violation]:
        if self._tampering is None:
            self._tampering = [
                Violation("tampering", what, _where(statement, node))
                for statement in self.source.statements
                for node, what in _tampering(self.source, statement.seen)
            ]
        return self._tampering

    def _uses_of(self, unit: Unit) -> list[tuple[str, str, Where]]:
        if unit not in self._uses:
            self._uses[unit] = [
                (rule, what, _where(unit.statement, node)) for node, rule, what in _uses(self.source, unit.seen)
            ]
        return self._uses[unit]


def _where(statement: Statement, node: ast.AST) -> Where:
    line: int = getattr(node, "lineno", 0) or getattr(statement.node, "lineno", 1)
    return Where(statement.cell.number, line + statement.cell.first_line - 1)


def _uses(source: Source, seen: Seen) -> Iterator[tuple[ast.AST, str, str]]:
    """(node, rule, what) for every use that some rule speaks of."""
    said, switched_off = _for_people(seen), _switched_off(seen)
    called = {id(node.func) for node, _ in seen if isinstance(node, ast.Call)}
    for node, scope in seen:
        if id(node) in switched_off:
            continue
        if isinstance(node, ast.Call):
            yield from _searched(source, node, scope)
        elif isinstance(node, ast.MatchClass):
            yield from ((node, "escape", f".{n}") for n in node.kwd_attrs if forbidden.rules_of_attribute(n))
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)) or isinstance(node, ast.Attribute):
            yield from _named(source, node, scope)
            if id(node) not in called and source.paths(node, scope) & LOOKS_UP:
                yield node, "escape", "getattr"  # handed on, so that its names are given elsewhere
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _defined(source, node, scope)
        elif isinstance(node, ast.keyword) and node.arg == "requires_grad" and not _is_false(node.value):
            yield node.value, "autograd", "requires_grad=True"
        elif isinstance(node, ast.Assign) and not _is_false(node.value):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                    yield node, "autograd", "requires_grad"
        elif isinstance(node, ast.expr) and id(node) not in said:
            text = literal(node)
            for rule in sorted(forbidden.rules_of_string(text)) if text else ():
                yield node, rule, f'"{text}"'


def _named(source: Source, node: ast.Name | ast.Attribute, scope: Scope | None) -> Iterator[tuple[ast.AST, str, str]]:
    found = False
    for path in sorted(source.paths(node, scope)):
        for rule in sorted(forbidden.rules_of_path(path)):
            found = True
            yield node, rule, path.removeprefix("builtins.").replace("()", "")
    if isinstance(node, ast.Attribute) and not found:
        for rule in sorted(forbidden.rules_of_attribute(node.attr)):
            if not (rule in forbidden.OWN_MAY_HAVE and source.is_own(node.value, scope)):
                yield node, rule, f".{node.attr}"


def _defined(
    source: Source, node: ast.FunctionDef | ast.ClassDef, scope: Scope | None
) -> Iterator[tuple[ast.AST, str, str]]:
    """Tensors of one's own kind: what their methods compute, nobody sees."""
    if isinstance(node, ast.FunctionDef):
        for rule in sorted(forbidden.rules_of_attribute(node.name) & {"escape"}):
            yield node, rule, node.name
    elif any("torch.Tensor" in source.paths(base, scope) for base in node.bases):
        yield node, "escape", f"class {node.name}(torch.Tensor)"


def _searched(source: Source, node: ast.Call, scope: Scope | None) -> Iterator[tuple[ast.AST, str, str]]:
    """Names that only show at run time, and classes made without a class statement."""
    called = source.paths(node.func, scope)
    if "builtins.type" in called and len(node.args) == 3:
        yield node, "escape", "type(name, bases, members)"
    searching = called & (LOOKS_UP | LISTS)
    if not searching or not node.args:
        return
    what = min(searching).removeprefix("builtins.")
    foreign = sorted(source.paths(node.args[0], scope))
    if searching & LISTS:
        if not source.is_own(node.args[0], scope):
            yield node, "escape", f"{what}({foreign[0] if foreign else '...'})"
    elif len(node.args) > 1 and _computed(source, node.args[1], scope):
        if foreign:
            yield node, "escape", f"{what}({foreign[0]}, ...)"
        elif _may_be_special(node.args[1]):
            yield node, "escape", f"{what}(..., {ast.unparse(node.args[1])[:40]})"


def _computed(source: Source, name: ast.AST, scope: Scope | None) -> bool:
    """Whether a name is put together at run time. One that comes from constants is found where those are."""
    if not isinstance(name, ast.Name):
        return isinstance(name, ast.BinOp | ast.Call | ast.JoinedStr) and literal(name) is None
    home = scope.lookup(name.id) if scope else None
    values: list[tuple[ast.AST | None, Scope | None]] = [(unit.value, None) for unit in source.units.get(name.id, ())]
    if home is not None:
        values = list(home.aliases.get(name.id, ()))
    others = [(value, where) for value, where in values if value is not None and not isinstance(value, ast.Name)]
    return any(_computed(source, value, where) for value, where in others)


def _may_be_special(name: ast.AST) -> bool:
    """Whether a name put together at run time may begin and end with underscores: a first or last letter that is fixed
    rules that out."""
    return _fixed(name, first=True) in ("", "_") and _fixed(name, first=False) in ("", "_")


def _fixed(name: ast.AST, *, first: bool) -> str:
    """The first (or last) character of a string that is put together, when it is there to be read; else ""."""
    text = literal(name)
    if text is not None:
        return text[:1] if first else text[-1:]
    if isinstance(name, ast.JoinedStr) and name.values:
        part = name.values[0 if first else -1]
        return _fixed(part, first=first) if isinstance(part, ast.Constant) else ""
    if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add):
        return _fixed(name.left if first else name.right, first=first)
    template = name.left if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Mod) else None
    if isinstance(name, ast.Call) and isinstance(name.func, ast.Attribute) and name.func.attr == "format":
        template = name.func.value
    text = literal(template) if template is not None else None
    if not text:
        return ""
    edge = text[:1] if first else text[-1:]
    whole_conversion = text.startswith("%") if first else len(text) > 1 and text[-2] == "%"
    return "" if edge in "{}%" or whole_conversion else edge


def _for_people(seen: Seen) -> set[int]:
    """Strings that are read by people: docstrings, messages of errors, what is printed, what is compared with."""
    found: set[int] = set()
    for node, _ in seen:
        texts: list[ast.AST] = []
        if isinstance(node, ast.Expr):
            texts = [node.value] if isinstance(node.value, ast.Constant) else []
        elif isinstance(node, ast.Raise):
            texts = [node]
        elif isinstance(node, ast.Assert):
            texts = [node.msg] if node.msg else []
        elif isinstance(node, ast.Compare | ast.JoinedStr):
            texts = [node]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _TALK:
            texts = [*node.args]
        found |= {id(inner) for text in texts for inner in ast.walk(text)}
    return found


def _switched_off(seen: Seen) -> set[int]:
    """``f`` of ``f(False)``: switching gradients off is fine."""
    return {
        id(node.func)
        for node, _ in seen
        if isinstance(node, ast.Call) and len(node.args) + len(node.keywords) == 1
        and _is_false((*node.args, *(keyword.value for keyword in node.keywords))[0])
    }


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _tampering(source: Source, seen: Seen) -> Iterator[tuple[ast.AST, str]]:
    for node, scope in seen:
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            attribute = node.attr if isinstance(node, ast.Attribute) else None
            yield from ((node, path) for path in _protected(source, node.value, scope, attribute))
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from ((node, path) for path in sorted(source.paths(node, scope)) if forbidden.tampers(path))
        elif isinstance(node, ast.Call) and node.args:
            called = source.paths(node.func, scope)
            if called & {"builtins.setattr", "builtins.delattr", "builtins.type.__setattr__"}:
                attribute = literal(node.args[1]) if len(node.args) > 1 else None
                yield from ((node, path) for path in _protected(source, node.args[0], scope, attribute))


def _protected(source: Source, owner: ast.AST, scope: Scope | None, attribute: str | None) -> list[str]:
    """The foreign things among what ``owner`` may mean, with the attribute that is about to be set."""
    return [
        f"{path}.{attribute}" if attribute else path
        for path in sorted(source.paths(owner, scope))
        if not forbidden.may_set(path, attribute)
    ]
