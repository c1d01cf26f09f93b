"""Finds code whose result depends on the order of a set, which follows hashes, and so addresses and the hash seed.

Known sets are literals, `set()` and `frozenset()`, set operators, and names and attributes that the module annotates or
assigns as sets. Functions whose result does not depend on the order may take a set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

SET_TYPES = ("AbstractSet", "FrozenSet", "MutableSet", "Set", "frozenset", "set")
SET_METHODS = ("copy", "difference", "intersection", "symmetric_difference", "union")
ORDERED_TAKERS = (
    "deque",
    "enumerate",
    "filter",
    "fromkeys",
    "iter",
    "join",
    "list",
    "map",
    "tuple",
    "zip",
)
UNORDERED_TAKERS = ("all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum")
EXTENDERS = ("extend", "extendleft", "writelines")

Finding = tuple[int, str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef


class SetUses:
    """Finds the uses of sets in one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._attributes = {
            name.removeprefix("self.") for name in _set_names(tree) if name.startswith("self.")
        } | _annotated_in_classes(tree)
        self._locals: set[str] = set()
        self._forgiven: set[ast.AST] = set()

    def hits(self) -> list[Finding]:
        """The line, rule and text of each use whose result depends on the order."""
        found = list(self._scope(self._tree, inherited=set()))
        return sorted(found)

    def _scope(self, scope: ast.AST, inherited: set[str]) -> Iterator[Finding]:
        known = inherited | {name for name in _own_set_names(scope) if not name.startswith("self.")}
        inner: list[ast.AST] = []
        for node in _own_nodes(scope, inner):
            self._locals = known
            text = self._judge(node)
            if text is not None:
                yield getattr(node, "lineno", 0), "set-order", text
        for function in inner:
            yield from self._scope(function, known)

    def _judge(self, node: ast.AST) -> str | None:
        match node:
            case ast.Call():
                return self._judge_call(node)
            case ast.For(iter=source) | ast.YieldFrom(value=source) | ast.Starred(value=source):
                return self._describe(source)
            case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
                if node not in self._forgiven:
                    return self._describe(node.generators[0].iter)
        return None

    def _judge_call(self, call: ast.Call) -> str | None:
        name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
        if name in UNORDERED_TAKERS:
            self._forgiven.update(call.args)
        if name == "pop" and not call.args and isinstance(call.func, ast.Attribute):
            return self._describe(call.func.value)
        if name in ORDERED_TAKERS or name in EXTENDERS:
            for argument in call.args:
                if self._is_set(argument):
                    return self._describe(argument)
        return None

    def _describe(self, source: ast.expr) -> str | None:
        return f"the order of the set {ast.unparse(source)}" if self._is_set(source) else None

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self._locals
            case ast.Attribute(attr=name):
                return name in self._attributes
            case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
                return any(self._is_set(side) or _is_keys(side) for side in (node.left, node.right))
            case ast.Call(func=ast.Name(id=name)):
                return name in ("set", "frozenset")
            case ast.Call(func=ast.Attribute(attr=name, value=value)):
                return name in SET_METHODS and self._is_set(value)
            case ast.IfExp():
                return self._is_set(node.body) or self._is_set(node.orelse)
        return False


def _own_nodes(scope: ast.AST, inner: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, outer before inner; nested functions are appended to `inner` instead."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, Function):
            inner.append(child)
        else:
            yield child
            yield from _own_nodes(child, inner)


def _own_set_names(scope: ast.AST) -> set[str]:
    names: set[str] = set()
    if isinstance(scope, Function):
        arguments = scope.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is not None and _is_set_type(argument.annotation):
                names.add(argument.arg)
    for node in _own_nodes(scope, []):
        names |= _assigned_set(node)
    return names


def _set_names(tree: ast.AST) -> set[str]:
    return {name for node in ast.walk(tree) for name in _assigned_set(node)}


def _annotated_in_classes(tree: ast.AST) -> set[str]:
    """Return the fields of dataclasses and other names that class bodies annotate as sets."""
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        for name in _assigned_set(statement)
    }


def _assigned_set(node: ast.AST) -> set[str]:
    match node:
        case ast.AnnAssign(target=target, annotation=annotation) if _is_set_type(annotation):
            return {ast.unparse(target)}
        case ast.Assign(targets=targets, value=value) if _makes_set(value):
            return {ast.unparse(target) for target in targets}
    return set()


def _makes_set(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        name = getattr(value.func, "id", None)
        if isinstance(value.func, ast.Subscript):  # set[str]()
            name = getattr(value.func.value, "id", None)
        return name in ("set", "frozenset")
    return isinstance(value, ast.Set | ast.SetComp)


def _is_set_type(annotation: ast.expr) -> bool:
    match annotation:
        case ast.Subscript(value=value):
            return _is_set_type(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SET_TYPES
        case ast.BinOp(left=left, right=right):
            return _is_set_type(left) or _is_set_type(right)
        case ast.Constant(value=str(text)):
            return text.split("[")[0] in SET_TYPES
    return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "keys"
