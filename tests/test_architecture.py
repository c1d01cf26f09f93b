"""The folders and who may import whom: the table of ARCHITECTURE.md, held by a test."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("system_under_test", "faults", "checkers", "spark_analysis", "harness")

# Folder -> (our folders it may import, third-party packages it may import)
MAY_IMPORT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "system_under_test": ((), ("orjson", "cryptography", "yaml", "lark")),
    "faults": ((), ()),
    # typing_extensions: for type checkers alone, in checkers/model/history.py
    "checkers": ((), ("networkx", "numpy", "orjson", "pyarrow", "typing_extensions")),
    "spark_analysis": (("checkers",), ("pyspark", "numpy", "pyarrow", "orjson", "matplotlib")),
    "harness": (
        ("system_under_test", "faults", "checkers", "spark_analysis"),
        # pytest: for harness/plugin/pytest_plugin.py; rocketmq: for harness/clients/cpp
        (
            "click",
            "numpy",
            "rich",
            "orjson",
            "tomli_w",
            "jinja2",
            "docker",
            "paramiko",
            "perfetto",
            "pytest",
            "rocketmq",
            "markupsafe",
            "starlette",
            "uvicorn",
        ),
    ),
}

# Packages that may import one package more, with all folders inside.
MAY_IMPORT_TOO = {"faults/proxy": "staticfire.system_under_test.protocol"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a module imports, at its top or inside a function."""
    yield from _imports_of(ast.parse(path.read_text(encoding="utf-8")), path)


def _imports_of(tree: ast.Module, path: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "staticfire":
                yield from (f"staticfire.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def is_allowed(path: Path, name: str) -> bool:
    """Whether a module, given by its path from the root, may import this."""
    folder, (top, *inside) = path.parts[0], name.split(".")
    ours, third_party = MAY_IMPORT[folder]
    above = [parent.as_posix() for parent in path.parents]
    extra = next((MAY_IMPORT_TOO[parent] for parent in above if parent in MAY_IMPORT_TOO), "")
    if extra and f"{name}.".startswith(f"{extra}."):
        return True
    if top == "staticfire":
        return not inside or inside[0] in (*ours, folder)
    return top in third_party or top in sys.stdlib_module_names


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_follow_the_table(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(folder)
        for name in imports(path)
        if not is_allowed(path.relative_to(ROOT), name)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "name", "allowed"),
    [
        ("faults/proxy/rocketmq/bodies.py", "staticfire.system_under_test.protocol.codes", True),
        ("faults/proxy/rocketmq/bodies.py", "staticfire.system_under_test.remoting", False),
        ("faults/proxy/rocketmq/bodies.py", "staticfire.system_under_test.protocols", False),
        ("faults/plans/plan.py", "staticfire.system_under_test.protocol.codes", False),
        ("checkers/log/loss.py", "orjson", True),
        ("checkers/log/loss.py", "click", False),
    ],
)
def test_the_table_allows_no_more_than_it_says(path: str, name: str, allowed: bool) -> None:
    assert is_allowed(Path(path), name) is allowed


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("staticfire", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def imports_at_run_time(path: Path) -> Iterator[str]:
    """What a module imports, without what only a type checker reads."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    yield from _imports_of(tree, path)


def import_graph() -> dict[str, list[str]]:
    """Edges between our modules; imports inside functions count, too."""
    names = {module_name(path): path for folder in FOLDERS for path in modules(folder)}
    graph: dict[str, list[str]] = {}
    for name, path in names.items():
        found = {t for t in imports_at_run_time(path) if t in names and t != name}
        graph[name] = sorted(found)
    return graph


def find_cycle(graph: dict[str, list[str]]) -> list[str]:
    """One cycle of the graph as a path, or an empty list."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for target in graph[node]:
            cycle = visit(target, [*path, node])
            if cycle:
                return cycle
        done.add(node)
        return []

    return next((cycle for node in sorted(graph) if (cycle := visit(node, []))), [])


def test_no_other_top_level_name() -> None:
    """Bare names such as `harness` belong to the projects of users."""
    tested = (*FOLDERS, "staticfire", "tests", "docs")
    bare = [
        f"{path.relative_to(ROOT)} imports {name}"
        for folder in tested
        for path in modules(folder)
        for name in imports(path)
        if name.partition(".")[0] in FOLDERS
    ]
    assert bare == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_a_subpackage(folder: str) -> None:
    link = ROOT / "staticfire" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..", folder)


def test_no_import_cycles() -> None:
    assert find_cycle(import_graph()) == []


def test_no_cycles_between_folders() -> None:
    """A folder and those inside it count each for itself: a package's face does not import what imports the package."""
    graph = import_graph()
    packages = {name.rpartition(".")[0] for name in graph}
    folder_of = {name: name if name in packages else name.rpartition(".")[0] for name in graph}
    folders: dict[str, set[str]] = {folder: set() for folder in folder_of.values()}
    for name, targets in graph.items():
        folders[folder_of[name]] |= {folder_of[target] for target in targets}
    edges = {folder: sorted(targets - {folder}) for folder, targets in folders.items()}
    assert find_cycle(edges) == []


def test_a_cycle_would_be_found() -> None:
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in modules(folder)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_file_names_say_what_they_hold() -> None:
    vague = {"util.py", "utils.py", "helpers.py", "misc.py", "common.py"}
    assert [path for folder in FOLDERS for path in modules(folder) if path.name in vague] == []


def test_no_python_in_docker_folder() -> None:
    """A package `docker` at the top would hide the Docker SDK."""
    assert list((ROOT / "docker").rglob("*.py")) == []
