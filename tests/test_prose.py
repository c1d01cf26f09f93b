"""Prose of docstrings: a title says what a module is, and words without an actor stay out (docs/style.md)."""

from __future__ import annotations

import re

import pytest

from tests.support.sources import ROOT, facts_of, modules

TOPS = ("system_under_test", "faults", "checkers", "spark_analysis", "harness")
NOUN_CLAUSE = re.compile(r"(What|Which|How|Whether|When|Who|Whose|Where|Why)\b")
FRAGMENT = re.compile(
    r"(Of|As|For|From|In|Is|Until|Beside)\b"
)  # of a sentence, such as "Of one machine."
WITHOUT_ACTOR = re.compile(r"\b(nobody|whoever|somebody|anybody)\b", re.IGNORECASE)


def docstrings(top: str) -> list[tuple[str, str, str]]:
    """Module, name inside of it (empty: the module itself) and docstring of all that have one."""
    return [
        (str(path.relative_to(ROOT)), name, text)
        for path in modules(top)
        for name, text in facts_of(path).docstrings
    ]


@pytest.mark.parametrize("top", [*TOPS, "tests/support"])
def test_the_title_of_a_module_says_what_it_is(top: str) -> None:
    titles = [(path, text) for path, name, text in docstrings(top) if not name]
    assert titles
    assert [path for path, text in titles if NOUN_CLAUSE.match(text)] == []


def test_a_title_in_the_harness_is_no_noun_clause_and_no_fragment() -> None:
    titles = [(path, name, text.partition("\n")[0]) for path, name, text in docstrings("harness")]
    wrong = [one for one in titles if NOUN_CLAUSE.match(one[2]) or FRAGMENT.match(one[2])]
    assert [one for one in wrong if not one[2].startswith("Whether ")] == []


@pytest.mark.parametrize("top", TOPS)
def test_a_docstring_names_the_actor(top: str) -> None:
    wrong = [(path, name) for path, name, text in docstrings(top) if WITHOUT_ACTOR.search(text)]
    assert wrong == []
