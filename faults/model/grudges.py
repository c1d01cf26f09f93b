"""Grudges: pure functions from nodes to the (source, target) pairs whose packets a partition drops.

The terms are Jepsen's (jepsen.nemesis): a bridge node communicates with both halves; in a ring each node communicates
with its two neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Pair = tuple[str, str]  # (source, target): packets from source to target are dropped


def both_ways(left: Iterable[str], right: Sequence[str]) -> list[Pair]:
    """Drop everything between the two sides."""
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def halves(nodes: Sequence[str]) -> list[Pair]:
    """Cut the first half of the nodes off from the rest."""
    middle = len(nodes) // 2
    return both_ways(nodes[:middle], nodes[middle:])


def one(node: str, others: Iterable[str]) -> list[Pair]:
    """Cut one node off from all others."""
    return both_ways([other for other in others if other != node], [node])


def one_way(node: str, others: Iterable[str]) -> list[Pair]:
    """Drop everything to the node; everything from it arrives."""
    return [(other, node) for other in others if other != node]


def bridge(nodes: Sequence[str]) -> list[Pair]:
    """Split the nodes into two halves that only the middle node can reach."""
    middle = len(nodes) // 2
    return both_ways(nodes[:middle], nodes[middle + 1 :])


def ring(nodes: Sequence[str]) -> list[Pair]:
    """Let each node communicate only with the nodes before and after it."""
    count = len(nodes)
    return [
        (nodes[i], nodes[j])
        for i in range(count)
        for j in range(count)
        if i != j and (i - j) % count not in (1, count - 1)
    ]
