"""Finds one-line mutations of the system in its syntax trees."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

# Modules that simulated runs do not reach: the real machine, certificates, files of options, the command line.
LEFT_OUT = (
    "runtime/real_",
    "configuration/real_tls.py",
    "configuration/config_file.py",
    "__main__.py",
)
LOGS = (".info", ".warning", ".error", ".debug")  # log lines do not count as behaviour
_COMPARISONS = {
    "Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "==",
    "Is": "is not", "IsNot": "is", "In": "not in", "NotIn": "in",
}  # fmt: skip
_SIGNS = {"Add": "-", "Sub": "+"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change of one line.

    Attributes:
        module: path below the system's folder.
        line: number of the line, from 1.
        kind: class of the change.
        start, end: columns of the text that is replaced, in bytes of the line.
        name: by the text of the line, so that it stays the same when the module changes elsewhere.
    """

    module: str
    line: int
    kind: str
    start: int
    end: int
    text: str
    name: str

    def change(self, system: Path) -> tuple[str, str]:
        """Return the module before and after."""
        before = (system / self.module).read_text(encoding="utf-8")
        lines = before.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        lines[self.line - 1] = (line[: self.start] + self.text.encode() + line[self.end :]).decode()
        return before, "".join(lines)

    def diff(self, system: Path) -> str:
        """Return the change as a diff against the repository."""
        before, after = self.change(system)
        path = f"system_under_test/{self.module}"
        lines = difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{path}",
            f"b/{path}",
            n=1,
        )
        return "".join(lines)


def sample(system: Path, seed: int, count: int, first: Collection[str] = ()) -> list[Mutation]:
    """Draw mutations by the seed: kinds take turns, and mutations of a kind are in the order of a hash.

    A change of the system affects the sample only by mutations of the changed lines. Mutations with a name in `first`
    come before the others of their kind.
    """
    by_kind: dict[str, list[Mutation]] = {}
    for mutation in mutations(system):
        by_kind.setdefault(mutation.kind, []).append(mutation)
    for candidates in by_kind.values():
        candidates.sort(
            key=lambda one: (one.name in first, sha256(f"{seed}/{one.name}".encode()).digest())
        )
    drawn: list[Mutation] = []
    while len(drawn) < count and any(by_kind.values()):
        for kind in sorted(by_kind):
            while by_kind[kind] and not _compiles(by_kind[kind][-1], system):
                by_kind[kind].pop()
            if by_kind[kind] and len(drawn) < count:
                drawn.append(by_kind[kind].pop())
    return drawn


def mutations(system: Path) -> Iterator[Mutation]:
    """Return all mutations of all modules, in a fixed order."""
    for path in sorted(system.rglob("*.py")):
        module = path.relative_to(system).as_posix()
        if not module.startswith(LEFT_OUT):
            yield from mutations_of(module, path.read_text(encoding="utf-8"))


def mutations_of(module: str, source: str) -> Iterator[Mutation]:
    """Return the mutations of one module that change one line."""
    lines, known = source.splitlines(), Counter[str]()
    for node in _code(ast.parse(source)):
        for kind, start, end, text in _changes(node):
            line = lines[node.lineno - 1].encode()
            column = start - (len(line) - len(line.lstrip()))
            name = f"{module}: {kind} at {column} of {line.decode().strip()}"
            known[name] += 1
            if known[name] > 1:
                name += f" (number {known[name]})"
            yield Mutation(
                module=module,
                line=node.lineno,
                kind=kind,
                start=start,
                end=end,
                text=text,
                name=name,
            )


def _compiles(mutation: Mutation, system: Path) -> bool:
    """Whether the changed module is valid Python, and differs from the former one."""
    before, after = mutation.change(system)
    try:
        ast.parse(after)
    except SyntaxError:
        return False
    return before != after


def _code(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the nodes of a tree in the order of the source, without annotations and decorators."""
    for name, value in ast.iter_fields(tree):
        if name == "decorator_list":
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            if not isinstance(child, ast.AnnAssign | ast.arg | ast.Import | ast.ImportFrom):
                yield from _code(child)
            elif isinstance(child, ast.AnnAssign) and child.value is not None:
                yield child.value
                yield from _code(child.value)


Change = tuple[str, int, int, str]  # kind, first column, column behind it, new text


def _changes(node: ast.expr | ast.stmt) -> Iterator[Change]:
    if node.lineno != node.end_lineno and not isinstance(node, ast.If):
        return
    match node:
        case ast.Compare(ops=[operator]) if type(operator).__name__ in _COMPARISONS:
            new = _COMPARISONS[type(operator).__name__]
            yield from _between(node.left, node.comparators[0], "comparison", f" {new} ")
        case ast.BoolOp(values=[left, right]):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield from _between(left, right, "and/or", word)
        case ast.BinOp() if type(node.op).__name__ in _SIGNS:
            yield from _between(
                node.left, node.right, "plus/minus", f" {_SIGNS[type(node.op).__name__]} "
            )
        case ast.Constant(value=int()) if type(node.value) is int and node.end_col_offset:
            yield "constant", node.col_offset, node.end_col_offset, str(node.value + 1)
        case ast.Constant(value=bool()) if node.end_col_offset:
            yield "boolean", node.col_offset, node.end_col_offset, str(not node.value)
        case ast.If(test=test) if test.lineno == test.end_lineno == node.lineno:
            assert test.end_col_offset is not None
            text = ast.unparse(test)
            yield "branches swapped", test.col_offset, test.end_col_offset, f"not ({text})"
        case ast.Expr(value=ast.Call() | ast.Await() as call) if node.end_col_offset:
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(LOGS):
                return
            yield "call removed", node.col_offset, node.end_col_offset, "pass"


def _between(left: ast.expr, right: ast.expr, kind: str, text: str) -> Iterator[Change]:
    """Return the change of the operator between two operands of one line."""
    assert left.end_col_offset is not None
    if left.end_lineno == right.lineno:
        yield kind, left.end_col_offset, right.col_offset, text
