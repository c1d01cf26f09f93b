"""Prose: a title says what a module is, and words without an actor stay out (docs/style.md)."""

from __future__ import annotations

import re

import pytest

from tests.support.sources import ROOT, facts_of, modules

TOPS = ("system_under_test", "faults", "checkers", "spark_analysis", "harness")
NOUN_CLAUSE = re.compile(r"(What|Which|How|Whether|When|Who|Whose|Where|Why)\b")
FRAGMENT = re.compile(
    r"(Of|As|For|From|In|Is|Until|Beside)\b"
)  # of a sentence, such as "Of one machine."
# Words that hide who acts (docs/style.md), also inside identifiers.
ACTORLESS = ("nobody", "whoever", "somebody", "anybody", "told", "untold")
WITHOUT_ACTOR = re.compile(rf"(?<![a-z])(?:{'|'.join(ACTORLESS)})s?(?![a-z])")
LISTS_THEM = frozenset({"docs/style.md", "tests/test_prose.py", "tests/test_words.py"})
FIELD = "a former field of recorded transactions"
NAME = "the name of an account, group or client"
# Data that must keep a word: file -> how often, and why. A comment or an identifier is never a reason.
DATA = {
    "checkers/op_kinds/former_fields.py": (1, FIELD),
    "docs/history.md": (1, FIELD),
    "harness/conformance/cases/admin.py": (1, NAME),
    "tests/checkers/op_kinds/test_former_fields.py": (3, FIELD),
    "tests/harness/cli/admin/commands/test_groups.py": (3, NAME),
    "tests/harness/cli/admin/test_refusals.py": (2, NAME),
    "tests/harness/cli/test_conform.py": (1, NAME),
    "tests/harness/cli/test_version_1.py": (1, FIELD),
    "tests/system_under_test/acl/test_acl.py": (4, NAME),
    "tests/system_under_test/broker/administration/test_acl_requests.py": (4, NAME),
}


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


def words_without_actor(text: str) -> list[str]:
    small = text.lower()
    if not any(word in small for word in ACTORLESS):
        return []  # without the cost of a regular expression
    return WITHOUT_ACTOR.findall(small)


@pytest.mark.parametrize("top", [*TOPS, "tests", "docs"])
def test_sources_and_pages_name_the_actor(top: str) -> None:
    """In comments, docstrings, texts and identifiers. The table has no entry, and no count, that is not needed."""
    pages = [*(ROOT / top).glob("*.md"), *(ROOT / top).rglob("*.toml")]
    found = {
        name: len(words)
        for path in [*modules(top), *pages]
        if (words := words_without_actor(path.read_text(encoding="utf-8")))
        and (name := path.relative_to(ROOT).as_posix()) not in LISTS_THEM
    }
    assert found == {name: n for name, (n, _) in DATA.items() if name.startswith(f"{top}/")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def test_nobody_waits", ["nobody"]),
        ("# Whoever is told", ["whoever", "told"]),
        ("SOMEBODYS = TOLD_S", ["somebodys", "told"]),
        ("an untold number", ["untold"]),
        ("foretold", []),
    ],
)
def test_a_word_without_actor_is_found(text: str, words: list[str]) -> None:
    assert words_without_actor(text) == words
