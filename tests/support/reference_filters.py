"""SQL92 filters by their definition: random expressions, their text, and what they are by truth tables.

Nothing here is shared with `system_under_test/filters`: text goes in there, and this says what has to come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

Truth = bool | None


class NoValue(Exception):
    """The expression is an error for these properties."""


@dataclass(frozen=True)
class Node:
    """An operator with operands: nodes, names, texts or numbers."""

    kind: str
    parts: tuple[object, ...]

    def __str__(self) -> str:
        first, *rest = self.parts
        if self.kind in ("AND", "OR"):
            return f"({first} {self.kind} {rest[0]})"
        if self.kind == "NOT":
            return f"NOT ({first})"
        if self.kind in ("IN", "NOT IN"):
            return f"{first} {self.kind} ({', '.join(map(quoted, rest))})"
        if self.kind in ("BETWEEN", "NOT BETWEEN"):
            return f"({first} {self.kind} {rest[0]} AND {rest[1]})"
        if self.kind in ("IS NULL", "IS NOT NULL"):
            return f"({first}) {self.kind}"
        if self.kind == "property":
            return str(first)
        right = quoted(rest[0]) if isinstance(rest[0], str) else rest[0]
        return f"({first} {self.kind} {right})"


def quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


AND = {
    (True, True): True, (True, False): False, (True, None): None,
    (False, True): False, (False, False): False, (False, None): False,
    (None, True): None, (None, False): False, (None, None): None,
}  # fmt: skip
OR = {
    (True, True): True, (True, False): True, (True, None): True,
    (False, True): True, (False, False): False, (False, None): None,
    (None, True): True, (None, False): None, (None, None): None,
}  # fmt: skip
NOT = {True: False, False: True, None: None}


def evaluate(node: Node, properties: Mapping[str, str]) -> Truth:
    """Raises NoValue. An operand that does not matter any more is not evaluated."""
    first, *rest = node.parts
    if node.kind in ("AND", "OR"):
        assert isinstance(first, Node)
        left = evaluate(first, properties)
        if left is (node.kind == "OR"):
            return left
        assert isinstance(rest[0], Node)
        right = evaluate(rest[0], properties)
        return (AND if node.kind == "AND" else OR)[left, right]
    if node.kind == "NOT":
        assert isinstance(first, Node)
        return NOT[evaluate(first, properties)]
    if node.kind in ("IS NULL", "IS NOT NULL"):
        assert isinstance(first, Node)
        known = (
            properties.get(str(first.parts[0]))
            if first.kind == "property"
            else evaluate(first, properties)
        )
        return (known is None) is (node.kind == "IS NULL")
    return _of_property(node, properties.get(str(first)), rest)


def _of_property(node: Node, value: str | None, rest: list[object]) -> Truth:
    if value is None:
        return None
    kind = node.kind
    if kind == "property":
        return False
    if kind in ("IN", "NOT IN"):
        return (value in rest) is (kind == "IN")
    if kind in ("=", "<>") and isinstance(rest[0], str):
        return (value == rest[0]) is (kind == "=")
    numbers = [each for each in rest if isinstance(each, int)]
    if kind == "BETWEEN":  # the low end decides first
        return number(value) >= numbers[0] and number(value) <= numbers[1]
    if kind == "NOT BETWEEN":
        return number(value) < numbers[0] or number(value) > numbers[1]
    return {
        "=": number(value) == numbers[0],
        "<>": number(value) != numbers[0],
        ">": number(value) > numbers[0],
        ">=": number(value) >= numbers[0],
        "<": number(value) < numbers[0],
        "<=": number(value) <= numbers[0],
    }[kind]


def number(text: str) -> int:
    """Java's Integer.valueOf, for texts of ASCII digits."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if not (body.isascii() and body.isdigit()) or not -(1 << 31) <= int(text) < 1 << 31:
        raise NoValue
    return int(text)


names = st.sampled_from(["a", "b", "TAGS", "$c_1"])
texts = st.sampled_from(["", "x", "it's", "7", "-7", "3.5", "007", "99999999999", "true", "ä"])
whole = st.integers(0, 20)
leaves = st.one_of(
    st.builds(lambda name: Node("property", (name,)), names),
    st.builds(
        lambda kind, name, value: Node(kind, (name, value)),
        st.sampled_from(["=", "<>"]),
        names,
        texts | whole,
    ),
    st.builds(
        lambda kind, name, value: Node(kind, (name, value)),
        st.sampled_from([">", ">=", "<", "<="]),
        names,
        whole,
    ),
    st.builds(
        lambda kind, name, low, size: Node(kind, (name, low, low + size)),
        st.sampled_from(["BETWEEN", "NOT BETWEEN"]),
        names,
        whole,
        whole,
    ),
    st.builds(
        lambda kind, name, values: Node(kind, (name, *values)),
        st.sampled_from(["IN", "NOT IN"]),
        names,
        st.lists(texts, min_size=1, max_size=3),
    ),
)


def _larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(
            lambda kind, left, right: Node(kind, (left, right)),
            st.sampled_from(["AND", "OR"]),
            inner,
            inner,
        ),
        st.builds(
            lambda kind, operand: Node(kind, (operand,)),
            st.sampled_from(["NOT", "IS NULL", "IS NOT NULL"]),
            inner,
        ),
    )


expressions: st.SearchStrategy[Node] = st.recursive(leaves, _larger, max_leaves=12)
# An empty value cannot be: a property without one is dropped when a record is decoded.
properties = st.dictionaries(names, texts.filter(bool), max_size=4)
