"""Searches for cycles in one segment, with networkx; `cycles.py` defines the cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import networkx as nx

from staticfire.checkers.cycles.cycle_graph import (
    Edge,
    Kind,
    Segment,
    process_edges,
    realtime_edges,
)
from staticfire.checkers.cycles.txn_log import TxnLog


class Phenomenon(NamedTuple):
    """A cycle of one edge of kind `starts` and a path back of the kinds `goes_on`."""

    name: str
    starts: Kind
    goes_on: tuple[Kind, ...]


PHENOMENA = (
    Phenomenon("G0", "ww", ("ww",)),
    Phenomenon("G1c", "wr", ("wr",)),  # before the one that needs ww, because it is worse
    Phenomenon("G1c", "wr", ("wr", "ww")),
    Phenomenon("G-single", "rw", ("wr", "ww")),
    Phenomenon("G2", "rw", ("wr", "ww", "rw")),
)
LEVELS: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    ("", ()),
    ("-process", ("process",)),
    ("-realtime", ("process", "realtime")),
)
Cycle = tuple[Edge, ...]


def cycles_in(log: TxnLog, segment: Segment) -> Iterator[tuple[str, Cycle]]:
    """Yield one cycle for each component and phenomenon, with the fewest kinds of edges that suffice."""
    orders = [*process_edges(log, segment), *realtime_edges(log, segment)]
    all_edges = sorted((*segment.edges, *orders))
    for name in dict.fromkeys(phenomenon.name for phenomenon in PHENOMENA):
        reported_of: dict[
            int, int
        ] = {}  # transaction -> the fewest orders with which a cycle was reported
        for phenomenon in (of for of in PHENOMENA if of.name == name):
            for orders_needed, (suffix, extra) in enumerate(LEVELS):
                for cycle in _cycles(all_edges, phenomenon, extra):
                    members = [edge.before for edge in cycle]
                    if all(reported_of.get(member, 9) > orders_needed for member in members):
                        reported_of.update(dict.fromkeys(members, orders_needed))
                        yield name + suffix, cycle


def _cycles(
    edges: Sequence[Edge], phenomenon: Phenomenon, extra: tuple[Kind, ...]
) -> Iterator[Cycle]:
    """Yield the first cycle of each strongly connected component."""
    path_kinds = (*phenomenon.goes_on, *extra)
    path = _graph(edge for edge in edges if edge.kind in path_kinds)
    starts = [edge for edge in edges if edge.kind == phenomenon.starts]
    whole: nx.DiGraph[int] = nx.DiGraph(path.edges)
    whole.add_edges_from((edge.before, edge.after) for edge in starts)
    component = {
        number: at
        for at, members in enumerate(nx.strongly_connected_components(whole))
        for number in members
    }
    without_rw = _graph(edge for edge in edges if edge.kind in path_kinds and edge.kind != "rw")
    found: set[int] = set()
    for edge in starts:
        at = component[edge.before]
        if at != component[edge.after] or at in found:
            continue
        if phenomenon.name == "G2" and _leads(without_rw, edge):
            continue  # a G-single
        if _leads(path, edge):
            found.add(at)
            yield _cycle(path, edge)


def _leads(graph: nx.DiGraph[int], edge: Edge) -> bool:
    """Whether a path leads from the end of an edge back to its beginning."""
    return (
        edge.after in graph and edge.before in graph and nx.has_path(graph, edge.after, edge.before)
    )


def _graph(edges: Iterable[Edge]) -> nx.DiGraph[int]:
    """Return a graph with the first edge of each pair. Sorted edges put process first, then realtime, rw, wr and ww."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for edge in edges:
        if not graph.has_edge(edge.before, edge.after):
            graph.add_edge(edge.before, edge.after, edge=edge)
    return graph


def _cycle(path: nx.DiGraph[int], edge: Edge) -> Cycle:
    """Return a cycle of the edge and a shortest path back, beginning at the transaction that ended first."""
    way = nx.shortest_path(path, edge.after, edge.before)
    steps = [edge, *(path.edges[pair]["edge"] for pair in pairwise(way))]
    first = min(range(len(steps)), key=lambda at: steps[at].before)
    return (*steps[first:], *steps[:first])
