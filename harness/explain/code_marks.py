"""Marks of reached code: modules of the system under test are imported with a mark in each block.

A block is the body of a function, of a branch, of a loop or of a handler. It sets its mark when it begins, so a run
knows which blocks it reached. Marks do not change the system's behaviour: a mark makes no call and no event.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, NamedTuple

PACKAGE = "staticfire.system_under_test"
MARKS = "__reached__"  # a name that every module finds, among the built-in ones
NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
WITH_BLOCKS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.Try, ast.ExceptHandler, ast.match_case),
    *(ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
)
PARTS = ("body", "orelse", "finalbody")


class Block(NamedTuple):
    """A block of the system: its module, relative to the system's folder, its function and its first line."""

    module: str
    function: str
    line: int


_blocks: list[Block] = []
_reached: dict[int, int] = {}


def begin() -> None:
    """Mark the system's modules that this process imports from now on. Raises RuntimeError if it already has some."""
    if PACKAGE in sys.modules:
        raise RuntimeError(f"{PACKAGE} is imported before its marks")
    setattr(builtins, MARKS, _reached)
    sys.meta_path.insert(0, _Finder())


def reached() -> frozenset[Block]:
    """Return the blocks reached since the last call."""
    found = frozenset(_blocks[number] for number in _reached)
    _reached.clear()
    return found


def marked(source: bytes | str, module: str) -> ast.Module:
    """Return the syntax tree of a module with marks; `module` is its path in the system's folder."""
    tree = ast.parse(source)
    _Marker(module).visit(tree)
    return ast.fix_missing_locations(tree)


class _Marker(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self._module = module
        self._names: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, NAMED):
            self._names.append(node.name)
        self.generic_visit(node)
        if self._names and isinstance(node, WITH_BLOCKS):
            self._mark(node)
        if isinstance(node, NAMED):
            self._names.pop()
        return node

    def _mark(self, node: Any) -> None:
        """Put a mark at the beginning of each block of a node, after a docstring."""
        for part in PARTS:
            block = getattr(node, part, None)
            if block:
                block.insert(int(_is_text(block[0])), self._new_mark(block[0]))

    def _new_mark(self, first: ast.stmt) -> ast.stmt:
        number = len(_blocks)
        _blocks.append(Block(self._module, ".".join(self._names), first.lineno))
        [mark] = ast.parse(f"{MARKS}[{number}] = 1").body
        for node in ast.walk(mark):
            ast.copy_location(node, first)
        return mark


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        module = path.rpartition(f"/{PACKAGE.rpartition('.')[2]}/")[2]
        return compile(marked(self.get_data(path), module), path, "exec")


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{fullname}.".startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec
