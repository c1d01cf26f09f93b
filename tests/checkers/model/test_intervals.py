"""Sets of time intervals, whole and in chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.model.intervals import Span, joined, shared, without

SPANS = st.lists(st.builds(Span, st.integers(0, 12), st.integers(0, 12)), max_size=5)


def instants(spans: list[Span]) -> set[int]:
    return {at for span in spans for at in range(span.start_ns, span.end_ns)}


@given(SPANS, SPANS)
def test_every_instant_is_where_it_belongs(one: list[Span], other: list[Span]) -> None:
    assert instants(joined(one)) == instants(one)
    assert instants(without(one, other)) == instants(one) - instants(other)
    assert instants(shared(one, other)) == instants(one) & instants(other)


def test_neighbours_become_one() -> None:
    assert joined([Span(3, 5), Span(0, 3), Span(7, 7)]) == [Span(0, 5)]
