"""Finds code that would make a simulated run depend on more than its seed, without running it.

Rules check syntax, so they also report code that may be harmless; an exemption names file and rule. The runtime guard
and the comparison of runs find what the rules cannot see, such as a set behind a parameter without annotation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from staticfire.harness.simulation.lint.sets import SetUses

REAL_MODULES = (
    "_thread",
    "concurrent",
    "fcntl",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
    "weakref",
)
ADDRESS_CALLS = ("hash", "id", "open")
# Exact by IEEE 754, so equal on every machine; other functions of the C library differ between machines.
EXACT_MATH = (
    "ceil",
    "copysign",
    "fabs",
    "floor",
    "gcd",
    "inf",
    "isfinite",
    "isnan",
    "sqrt",
    "trunc",
)
UNORDERED_ASYNCIO = ("TaskGroup", "all_tasks", "as_completed", "wait")
NOW_CALLS = ("now", "today", "utcnow")
CREATORS = ("create_task", "ensure_future")
MUTABLE_CALLS = ("Counter", "OrderedDict", "count", "defaultdict", "deque", "dict", "list", "set")
MUTATORS = ("add", "append", "clear", "extend", "insert", "pop", "popleft", "setdefault", "update")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Hit:
    """One line that breaks one rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def check_folder(folder: Path, exempt: dict[str, frozenset[str]]) -> list[Hit]:
    """Check every Python file below `folder`. `exempt` maps a path relative to it to the rules it may break."""
    hits: list[Hit] = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        allowed = exempt.get(name, frozenset())
        hits += [
            hit for hit in check_source(path.read_text(), name) if not {hit.rule, "*"} & allowed
        ]
    return hits


def check_source(source: str, path: str) -> list[Hit]:
    """Return the hits in one module, sorted by line."""
    tree = ast.parse(source, path)
    found = {*_walk(tree), *SetUses(tree).hits()}
    return sorted(
        Hit(path=path, line=line, rule=rule, text=text) for line, rule, text in sorted(found)
    )


Finding = tuple[int, str, str]  # line, rule, text


def _walk(tree: ast.Module) -> Iterator[Finding]:
    yield from _module_state(tree)
    imported = _imported_modules(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from _check_import(node)
            case ast.Call():
                yield from _check_call(node)
            case ast.Attribute(value=ast.Name(id=module)) if module in imported:
                yield from _check_attribute(node, module)
            case ast.ExceptHandler():
                yield from _check_handler(node)
            case ast.FunctionDef(name="__del__"):
                yield node.lineno, "finalizer", "__del__ runs when the collector likes"
            case ast.AsyncFunctionDef() if _has_own_yield(node):
                yield node.lineno, "async-generator", f"{node.name} is closed by the collector"
            case ast.Expr(value=ast.Call() as call) if _called(call) in CREATORS:
                yield node.lineno, "dropped-task", "nothing keeps this task, and its error is lost"
            case ast.Global():
                yield node.lineno, "shared-state", f"global {', '.join(node.names)}"


def _imported_modules(tree: ast.Module) -> set[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import))
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _check_import(node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom):
        module = (node.module or "").split(".")[0]
        names = {alias.name for alias in node.names}
        if module == "random" and names != {"Random"}:
            yield node.lineno, "real-world", "only the class Random may come from random"
        if module == "math" and not names <= set(EXACT_MATH):
            yield node.lineno, "inexact-math", f"math.{', math.'.join(sorted(names))}"
        if module == "asyncio" and names & set(UNORDERED_ASYNCIO):
            yield node.lineno, "unordered", f"asyncio.{', '.join(sorted(names))} work on sets"
        if node.level:
            return
        modules = [module]
    else:
        modules = [alias.name.split(".")[0] for alias in node.names]
    for module in modules:
        if module in REAL_MODULES:
            yield node.lineno, "real-world", f"module {module}"


def _check_call(node: ast.Call) -> Iterator[Finding]:
    match node.func:
        case ast.Name(id=name) if name in ADDRESS_CALLS:
            yield node.lineno, "real-world" if name == "open" else "address", f"{name}()"
        case ast.Attribute(attr=name, value=ast.Name(id="datetime" | "date")) if name in NOW_CALLS:
            yield node.lineno, "real-world", f"datetime.{name}()"
        case ast.Attribute(attr=name, value=ast.Attribute(attr="datetime")) if name in NOW_CALLS:
            yield node.lineno, "real-world", f"datetime.{name}()"
    if _called(node) == "suppress" and any(_names_cancellation(arg) for arg in node.args):
        yield node.lineno, "swallowed-cancel", "suppress() of CancelledError or BaseException"
    if _called(node) == "gather" and any(word.arg == "return_exceptions" for word in node.keywords):
        yield node.lineno, "interpreter", "takes other turns in other versions; use end_tasks()"


def _check_attribute(node: ast.Attribute, module: str) -> Iterator[Finding]:
    if module == "random" and node.attr != "Random":
        yield (
            node.lineno,
            "real-world",
            f"random.{node.attr} shares its state with the whole process",
        )
    elif module == "math" and node.attr not in EXACT_MATH:
        yield node.lineno, "inexact-math", f"math.{node.attr} depends on the C library"
    elif module == "asyncio" and node.attr in UNORDERED_ASYNCIO:
        yield node.lineno, "unordered", f"asyncio.{node.attr} works on sets"


def _check_handler(node: ast.ExceptHandler) -> Iterator[Finding]:
    if any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
        return
    if node.type is None:
        yield node.lineno, "swallowed-cancel", "bare except"
    elif any(_names_cancellation(part) for part in ast.walk(node.type)):
        yield node.lineno, "swallowed-cancel", f"except {ast.unparse(node.type)} without raise"


def _names_cancellation(node: ast.AST) -> bool:
    name = getattr(node, "attr", None) or getattr(node, "id", None)
    return name in ("CancelledError", "BaseException")


def _has_own_yield(node: ast.AST) -> bool:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Yield):
            return True
        is_scope = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if not is_scope and _has_own_yield(child):
            return True
    return False


def _called(call: ast.Call) -> str | None:
    """Return the last part of the called name."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


# --- state that all nodes would share: they live in one interpreter -----------------------------------


def _module_state(tree: ast.Module) -> Iterator[Finding]:
    tables: set[str] = set()
    for name, value, line in _assignments(tree):
        if not _is_mutable(value):
            continue
        if name.lstrip("_").isupper() or name == "__all__":
            tables.add(name)
        else:
            yield line, "shared-state", f"{name} is mutable and belongs to the module or the class"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _mutations(node, tables)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield the names assigned in the module's body and in the bodies of its classes."""
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value, statement.lineno
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value, statement.lineno


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _called(value) in MUTABLE_CALLS
    return isinstance(
        value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    )


def _mutations(function: ast.AST, tables: set[str]) -> Iterator[Finding]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                name in tables and attr in MUTATORS
            ):
                yield node.lineno, "shared-state", f"{name}.{attr}() changes a table of the module"
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if (
                name in tables
            ):
                yield node.lineno, "shared-state", f"{name}[...] changes a table of the module"
