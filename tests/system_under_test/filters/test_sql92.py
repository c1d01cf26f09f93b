"""SQL92 filters: what RocketMQ's own evaluator says of these expressions, and truth tables for random ones."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from staticfire.system_under_test.filters import sql92_expressions
from staticfire.system_under_test.filters.java_values import EvaluationError
from staticfire.system_under_test.filters.sql92 import (
    LINE_COMMENT_LENGTH_MAX,
    TOKENS_MAX,
    CompiledFilters,
    compile_filter,
)
from staticfire.system_under_test.filters.sql92_expressions import Expression, FilterSyntaxError
from tests.support import reference_filters
from tests.support.reference_filters import Node


def outcome(text: str, properties: dict[str, str]) -> str:
    """T, F, U for unknown, E for an evaluation error, P for a parse error."""
    try:
        condition = compile_filter(text)
    except FilterSyntaxError:
        return "P"
    try:
        value = condition.evaluate(properties)
    except EvaluationError:
        found = "E"
    else:
        assert value is None or isinstance(value, bool)
        found = {True: "T", False: "F", None: "U"}[value]
    assert condition.matches(properties) is (found == "T")
    return found


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        # Executed with the classes of RocketMQ 4.9.8.
        ("a > 3", {"a": "5"}, "T"),
        ("a > 3", {"a": "3.5"}, "E"),
        ("a > 3", {}, "U"),
        ("a > 3.0", {"a": "3.5"}, "T"),
        ("a > 0.0", {"a": "1"}, "P"),
        ("a = 3", {"a": "03"}, "T"),
        ("a = '3'", {"a": "03"}, "F"),
        ("a = 1e3", {"a": "1000"}, "T"),
        ("a = -3", {"a": "-3"}, "T"),
        ("-a = 3", {"a": "-3"}, "U"),
        ("a = 2147483648", {"a": "2147483648"}, "T"),
        ("a = TRUE", {"a": "true"}, "T"),
        ("a = TRUE", {"a": "TRUE"}, "T"),
        ("a = FALSE", {"a": "no"}, "T"),
        ("TRUE = a", {"a": "true"}, "E"),
        ("a", {"a": "true"}, "F"),
        ("NOT a", {"a": "true"}, "T"),
        ("TRUE", {}, "T"),
        ("a = b", {}, "T"),
        ("a = b", {"b": "1"}, "U"),
        ("a = b", {"a": "1"}, "F"),
        ("a > 1 AND b = 'z'", {"b": "y"}, "F"),
        ("a > 1 OR b = 'z'", {"b": "y"}, "U"),
        ("a > 'b'", {}, "P"),
        ("a > TRUE", {}, "P"),
        ("a = NULL", {}, "P"),
        ("a IN (1,2)", {}, "P"),
        ("'x' IN ('x')", {}, "P"),
        ("a BETWEEN 5 AND 1", {}, "P"),
        ("a BETWEEN 'a' AND 'b'", {}, "P"),
        ("a == 1", {}, "P"),
        ("a != 1", {}, "P"),
        ("1", {}, "P"),
        ("'x'", {}, "P"),
        ("a LIKE 'x%'", {"a": "xy"}, "F"),
        # From its grammar and sources.
        ("a + 1 > 2", {"a": "5"}, "F"),  # the tail is ignored
        ("A-B = 1", {"A": "1"}, "F"),
        ("a = 1)", {"a": "1"}, "T"),
        ("a = 03", {"a": "0"}, "T"),  # 0, and a tail
        ("a b #", {"a": "x"}, "F"),  # the parser stops before the #
        ("a #", {}, "P"),
        ("(a = 1", {}, "P"),
        ("a = 1 OR", {}, "P"),
        ("a IS 5", {}, "P"),
        ("a NOT 5", {}, "P"),
        ("", {}, "P"),
        ("a <> 1", {"a": "2"}, "T"),
        ("a <= 2", {"a": "2"}, "T"),
        ("a < 2", {"a": "2"}, "F"),
        ("a > 1 > 2", {}, "P"),
        ("NOT a = 1", {"a": "1"}, "F"),  # (NOT a) = 1 compares a boolean with a number
        ("1 = TRUE", {}, "F"),
        ("TRUE = 1", {}, "P"),
        ("a is null Or b Is Not nULL", {"a": "1"}, "F"),
        ("(a > 1) IS NULL", {}, "T"),
        ("a between 1 and 3 and b = 'x'", {"a": "2", "b": "x"}, "T"),
        ("a not between 1 and 3", {"a": "2"}, "F"),
        ("a BETWEEN -1 AND -5", {"a": "-3"}, "F"),  # -1 is no constant
        ("a BETWEEN 1 AND 1.5", {"a": "1"}, "T"),
        ("a BETWEEN NULL AND 1", {}, "P"),
        ("a BETWEEN '1' AND 5", {}, "P"),
        ("a BETWEEN 'x' AND 5", {}, "P"),
        ("a NOT IN ('it''s', 'b')", {"a": "it's"}, "F"),
        ("(a) IN ('b')", {"a": "b"}, "T"),
        ("+a = 1", {"a": "1"}, "T"),
        ("- - 3 = 3", {}, "T"),
        ("a = - 2147483648", {"a": "-2147483648"}, "T"),
        ("a = 1L", {"a": "99999999999"}, "E"),  # it fits an int, L or not
        ("a < 99999999999", {"a": "99999999998"}, "T"),
        ("a = 9223372036854775808", {}, "P"),
        ("a = 1e999", {}, "P"),
        ("a > 1.5", {"a": "NaN"}, "T"),
        ("a > 1.5", {"a": " 2 "}, "T"),
        ("a > 1.5", {"a": "1_0"}, "E"),
        ("a > 1.5", {"a": "0x1p3"}, "T"),
        ("a > b", {"a": "10", "b": "9"}, "T"),  # two texts are two doubles
        ("a > b", {"a": "x", "b": "9"}, "E"),
        ("notx = 1 and orx = 2", {"notx": "1", "orx": "2"}, "T"),
        ("a /* * **/ = /**/ 1 -- end\n", {"a": "1"}, "T"),
        ("a = 1 -- no line end", {"a": "1"}, "T"),
        ("b = 'x' OR a > 3", {"b": "x", "a": "?"}, "T"),  # a is not evaluated
        ("a > 3 OR b = 'x'", {"b": "x", "a": "?"}, "E"),
        ("$a_1 = '1'", {"$a_1": "1"}, "T"),
        ("A = '1'", {"a": "1"}, "U"),
    ],
)
def test_vectors(text: str, properties: dict[str, str], expected: str) -> None:
    assert outcome(text, properties) == expected


@given(reference_filters.expressions, reference_filters.properties)
@example(Node("=", ("a", "it's")), {"a": "it's"})
def test_random_expressions_follow_the_truth_tables(
    expression: Node, properties: dict[str, str]
) -> None:
    try:
        truth = reference_filters.evaluate(expression, properties)
    except reference_filters.NoValue:
        expected = "E"
    else:
        expected = {True: "T", False: "F", None: "U"}[truth]
    assert outcome(str(expression), properties) == expected


@pytest.mark.parametrize(
    "text", ["NOT " * 200 + "a", "-" * 200 + "a = 1", "a = 1" + " = 1" * 200, "a = 1 OR " * 2000]
)
def test_what_would_be_too_deep_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        compile_filter(text)


@pytest.mark.slow
def test_a_long_chain_is_not_deep() -> None:
    assert compile_filter(" OR ".join(["a = 1"] * 500)).matches({"a": "1"})
    assert compile_filter("(" * 1000 + "a = 1" + ")" * 1000).matches({"a": "1"})


def test_a_chain_is_made_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The depth of each operand is measured once."""
    seen: list[int] = []
    depth = sql92_expressions._depth

    def counted(*parts: Expression) -> int:
        seen.append(len(parts))
        return depth(*parts)

    monkeypatch.setattr(sql92_expressions, "_depth", counted)
    for operator in ("OR", "AND"):
        compile_filter(f" {operator} ".join(["TRUE"] * 500))
        assert sum(seen) == 500
        seen.clear()


def test_a_chain_is_as_deep_as_its_deepest_operand() -> None:
    deepest = "NOT " * (sql92_expressions.DEPTH_MAX - 2) + "TRUE"
    for chain in (f"{deepest} OR a OR b", f"a OR b OR {deepest}", f"a OR {deepest} OR b"):
        assert compile_filter(chain).matches({}) is True
        with pytest.raises(FilterSyntaxError, match="more than 100 levels"):
            compile_filter(chain.replace("NOT", "NOT NOT", 1))


def test_tokens_are_bounded() -> None:
    """The lexer stops at the bound of tokens, however long the text is."""
    operators = "(" * (TOKENS_MAX - 1)
    with pytest.raises(FilterSyntaxError, match="not complete"):
        compile_filter(f"{operators}a")
    with pytest.raises(FilterSyntaxError, match=f"more than {TOKENS_MAX} tokens"):
        compile_filter(f"{operators}(a")


def test_each_dash_looks_for_the_end_of_its_line_only_so_far() -> None:
    """16,000 dashes without a line break took 1.5 s: each looked through all of those behind it."""
    comment = "--" + "x" * LINE_COMMENT_LENGTH_MAX
    assert compile_filter(f"{comment}\na IS NULL").matches({})
    with pytest.raises(FilterSyntaxError, match="neither a condition nor a property"):
        compile_filter(f"{comment}x\na IS NULL")


def test_the_last_expressions_are_kept_and_so_are_refusals() -> None:
    filters = CompiledFilters(kept_max=2)
    first = filters.compile("a = 1")
    with pytest.raises(FilterSyntaxError):
        filters.compile("a ==")
    assert filters.compile("a = 1") is first
    with pytest.raises(FilterSyntaxError, match="not complete"):
        filters.compile("a ==")
    filters.compile("a = 2")
    assert filters.compile("a = 1") is not first
