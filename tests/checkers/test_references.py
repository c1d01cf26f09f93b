"""Plain references: every anomaly has one that a test uses, and none shares code with the checkers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from staticfire.checkers.verdicts.compose import ALL_CHECKERS
from tests.support.references import OF_FUNCTION, REFERENCES
from tests.support.sources import parsed

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"
SHARED = {
    "staticfire.checkers.guarantees.facts",
    "staticfire.checkers.model.history",
}  # what ops and facts are; no rule of theirs


def test_every_anomaly_has_a_reference() -> None:
    assert sorted(REFERENCES) == sorted(name for of in ALL_CHECKERS for name in of.anomalies)
    assert len(REFERENCES) == sum(len(names.split()) for names in OF_FUNCTION.values())


@pytest.mark.parametrize("module", sorted({function.__module__ for function in OF_FUNCTION}))
def test_references_share_no_code_with_checkers(module: str) -> None:
    tree = ast.parse((SUPPORT / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8"))
    imported = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} | {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    assert {name for name in imported if name.split(".")[0] == "staticfire"} <= SHARED


def test_a_random_test_asks_every_reference() -> None:
    """One that imports it and is no list of references itself."""
    modules = {function.__module__.rpartition(".")[2] for function in OF_FUNCTION}
    asked = set()
    for path in HERE.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "@given(" in text and any(module in text for module in modules):
            nodes = list(ast.walk(parsed(text)))
            names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            names |= {node.id for node in nodes if isinstance(node, ast.Name)}
            asked |= {
                function
                for function in OF_FUNCTION
                if function.__module__.rpartition(".")[2] in text and function.__name__ in names
            }
    assert {function.__qualname__ for function in OF_FUNCTION if function not in asked} == set()
