"""The folders and who may import whom: the table of ARCHITECTURE.md, held by a test."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.sources import FOLDERS, ROOT, facts_of, modules

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

BARE = re.compile(rf"^\s*(from|import)\s+({'|'.join(FOLDERS)})\b", re.MULTILINE)

# Packages that may import one package more, with all folders inside.
MAY_IMPORT_TOO = {"faults/proxy": "staticfire.system_under_test.protocol"}


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
        for name in facts_of(path).imports
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


def import_graph() -> dict[str, list[str]]:
    """Edges between our modules: imports inside functions count, those that only a type checker reads do not."""
    names = {module_name(path): path for folder in FOLDERS for path in modules(folder)}
    graph: dict[str, list[str]] = {}
    for name, path in names.items():
        facts = facts_of(path)
        at_run_time = Counter(facts.imports) - Counter(facts.type_imports)
        graph[name] = sorted(one for one in at_run_time if one in names and one != name)
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
        if BARE.search(path.read_text(encoding="utf-8"))  # without the cost of a syntax tree
        for name in facts_of(path).imports
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
        if "" not in dict(facts_of(path).docstrings)
    ]
    assert silent == []


def test_file_names_say_what_they_hold() -> None:
    vague = {"util.py", "utils.py", "helpers.py", "misc.py", "common.py"}
    assert [path for folder in FOLDERS for path in modules(folder) if path.name in vague] == []


def test_no_python_in_docker_folder() -> None:
    """A package `docker` at the top would hide the Docker SDK."""
    assert list((ROOT / "docker").rglob("*.py")) == []
