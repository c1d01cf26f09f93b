"""Mutants: one-line changes that stay valid Python, determined by a seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from staticfire.harness.museum.mutations import Mutation, mutations_of, sample

SOURCE = '''"""A title."""

LIMIT: int = 3


@decorated(frozen=True)
def decide(a: int, b: int, log) -> bool:
    if a < b:
        log.info("smaller")
        note(a)
        return True
    return a is None or a + 1 == b
'''


def changed(kind: str) -> list[str]:
    """The lines that mutations of this kind make."""
    lines = SOURCE.splitlines()
    found = []
    for one in mutations_of("m.py", SOURCE):
        if one.kind == kind:
            line = lines[one.line - 1]
            found.append((line[: one.start] + one.text + line[one.end :]).strip())
    return found


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "comparison",
            ["if a <= b:", "return a is not None or a + 1 == b", "return a is None or a + 1 != b"],
        ),
        ("and/or", ["return a is None and a + 1 == b"]),
        ("plus/minus", ["return a is None or a - 1 == b"]),
        ("constant", ["LIMIT: int = 4", "return a is None or a + 2 == b"]),
        ("boolean", ["return False"]),
        ("branches swapped", ["if not (a < b):"]),
        ("call removed", ["pass"]),
    ],
)
def test_every_kind_changes_one_line(kind: str, lines: list[str]) -> None:
    assert sorted(changed(kind)) == sorted(lines)


def test_a_sample_is_fixed_by_its_seed_and_compiles(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    drawn = sample(tmp_path, 1, 7)
    assert [one.name for one in drawn] == [one.name for one in sample(tmp_path, 1, 7)]
    assert len({one.name for one in drawn}) == len({one.kind for one in drawn}) == 7
    for one in drawn:
        before, after = one.change(tmp_path)
        ast.parse(after)
        differing = [a != b for a, b in zip(before.splitlines(), after.splitlines(), strict=True)]
        assert sum(differing) == 1


def test_a_change_elsewhere_leaves_the_names_and_their_order(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    before = [one.name for one in sample(tmp_path, 1, 100)]
    assert "m.py: comparison at 4 of if a < b:" in before
    (tmp_path / "m.py").write_text(
        SOURCE.replace("LIMIT: int = 3\n", "# Greater.\nLIMIT: int = 5\n")
    )
    after = [one.name for one in sample(tmp_path, 1, 100)]
    assert [name for name in after if "LIMIT" not in name] == [
        name for name in before if "LIMIT" not in name
    ]


def test_what_was_tried_before_comes_first(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    drawn = [one.name for one in sample(tmp_path, 1, 100)]
    kinds = len({name.split(" at ")[0] for name in drawn})
    last = drawn[-1]
    assert last not in drawn[:kinds]
    assert last in [one.name for one in sample(tmp_path, 1, kinds, {last})]
    assert sorted(drawn) == sorted(one.name for one in sample(tmp_path, 1, 100, {last}))


def test_equal_lines_have_names_of_their_own() -> None:
    names = [one.name for one in mutations_of("m.py", "x = 1\nx = 1\n")]
    assert names == ["m.py: constant at 4 of x = 1", "m.py: constant at 4 of x = 1 (number 2)"]


def test_a_mutant_is_a_diff_against_the_repository(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x = 1\n")
    mutation = Mutation(module="m.py", line=1, kind="constant", start=4, end=5, text="2", name="x")
    lines = mutation.diff(tmp_path).splitlines()
    assert lines[:2] == ["--- a/system_under_test/m.py", "+++ b/system_under_test/m.py"]
    assert lines[-2:] == ["-x = 1", "+x = 2"]
