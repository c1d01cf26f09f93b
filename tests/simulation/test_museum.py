"""Processes of the museum: a planted bug is found and kept apart from the clean system, and so is a mutant."""

from __future__ import annotations

from staticfire.faults.defects import DEFECTS
from staticfire.harness.museum.mutants import system_folder, try_mutation
from staticfire.harness.museum.mutations import Mutation, mutations_of
from staticfire.harness.museum.searches import Search, judge_without, search


def test_a_piece_is_found_by_its_recipe_and_its_seed_is_valid_without_it() -> None:
    defect = DEFECTS["reads-before-flush"]
    found = Search(bound_cpu_s=60.0)

    search(defect, found, "recipe")
    found.off = judge_without(defect, found, "recipe")

    assert found.is_found
    assert defect.checkers[0] in found.checkers
    assert found.off == "valid"
    assert found.broken is not None


def mutation_of(module: str, text: str) -> Mutation:
    """The first comparison of a line that has this text."""
    source = (system_folder() / module).read_text(encoding="utf-8")
    lines = source.splitlines()
    return next(
        one
        for one in mutations_of(module, source)
        if one.kind == "comparison" and text in lines[one.line - 1]
    )


def test_a_store_that_refuses_its_own_files_is_found_by_its_crashes() -> None:
    trial = try_mutation(mutation_of("store/mapped_file.py", "len(name) != NAME_DIGITS"), [])
    assert trial.found_by == "store crashes"
    assert "is not a store file" in trial.reason
