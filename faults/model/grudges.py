"""Grudges: who must not hear whom. Pure functions from nodes to (source, target) pairs to drop.

The words are Jepsen's (jepsen.nemesis): a bridge node hears both halves, in a ring each node hears its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Pair = tuple[str, str]  # (source, target): packets from source to target are dropped


def both_ways(left: Iterable[str], right: Sequence[str]) -> list[Pair]:
    """No node of one side hears a node of the other."""
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def halves(nodes: Sequence[str]) -> list[Pair]:
    """The first half of the nodes is cut off from the rest."""
    middle = len(nodes) // 2
    return both_ways(nodes[:middle], nodes[middle:])


def one(node: str, others: Iterable[str]) -> list[Pair]:
    """One node is cut off from all others."""
    return both_ways([other for other in others if other != node], [node])


def one_way(node: str, others: Iterable[str]) -> list[Pair]:
    """The node is heard by all others, and hears none of them."""
    return [(other, node) for other in others if other != node]


def bridge(nodes: Sequence[str]) -> list[Pair]:
    """Two halves that only the middle node can reach."""
    middle = len(nodes) // 2
    return both_ways(nodes[:middle], nodes[middle + 1 :])


def ring(nodes: Sequence[str]) -> list[Pair]:
    """Each node hears only the node before and the node after it."""
    count = len(nodes)
    return [
        (nodes[i], nodes[j])
        for i in range(count)
        for j in range(count)
        if i != j and (i - j) % count not in (1, count - 1)
    ]
