"""docs/where.md leads to files that have the names that it gives."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.sources import parsed

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


def names_of(path: Path) -> set[str]:
    """Classes, functions and variables of a module, and `Class.method`."""
    found: set[str] = set()
    for node in parsed(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name, body=body):
                found |= {name}
                inside = (ast.FunctionDef, ast.AsyncFunctionDef)
                found |= {f"{name}.{one.name}" for one in body if isinstance(one, inside)}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def test_there_are_thirty_questions() -> None:
    assert len([what for what, _, _ in ROWS if what.endswith("?")]) == 30
    assert len(ROWS) == PAGE.count("\n| ") - 3  # every row was read, but for three heads


@pytest.mark.parametrize(("what", "file", "name"), ROWS, ids=[what for what, _, _ in ROWS])
def test_a_file_has_the_name(what: str, file: str, name: str) -> None:
    assert name in names_of(ROOT / file), what
