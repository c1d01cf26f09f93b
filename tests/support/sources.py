"""Facts of our own modules, from their syntax trees: imports and docstrings, for tests of the structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from staticfire.checkers.model.gc_pause import collector_paused

ROOT = Path(__file__).parents[2]
FOLDERS = ("system_under_test", "faults", "checkers", "spark_analysis", "harness")
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # fields that hold statements


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts of one module.

    Attributes:
        imports: dotted names of everything that it imports, at its top or inside a function.
        type_imports: those of `imports` that only a type checker reads.
        docstrings: (name, text) of the module (name ""), its classes and functions, where there is one.
    """

    imports: tuple[str, ...]
    type_imports: tuple[str, ...]
    docstrings: tuple[tuple[str, str], ...]


@cache
def modules(folder: str) -> tuple[Path, ...]:
    """The modules of a folder and of those inside, sorted; the folder is given from the root."""
    return tuple(sorted((ROOT / folder).rglob("*.py")))


def parsed(text: str) -> ast.Module:
    """The syntax tree of a module. Without cycles it is no matter for the collector, which took a fifth of the time."""
    with collector_paused():
        return ast.parse(text)


@cache
def facts_of(path: Path) -> SourceFacts:
    """Parse a module once a process. Raises AssertionError for a relative import."""
    tree = parsed(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = list(_statements(tree))
    return SourceFacts(
        imports=tuple(name for node in nodes for name in _imported(node, path)),
        type_imports=tuple(
            name
            for guard in tree.body
            if isinstance(guard, ast.If) and ast.unparse(guard.test) == "TYPE_CHECKING"
            for node in _statements(guard)
            for name in _imported(node, path)
        ),
        docstrings=tuple(
            (getattr(node, "name", ""), text)
            for node in nodes
            if isinstance(node, documented) and (text := ast.get_docstring(node))
        ),
    )


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements inside of it."""
    yield node
    for block in BLOCKS:
        inside = getattr(node, block, ())
        if isinstance(
            inside, list
        ):  # a lambda and a conditional expression have a body of one expression
            for one in inside:
                yield from _statements(one)


def _imported(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{path}: relative import"
        if node.module == "staticfire":
            yield from (f"staticfire.{alias.name}" for alias in node.names)
        else:
            yield node.module or ""
