"""Ports for nodes: consecutive ones from a first port, or free ones.

A broker needs three: its own, the one above it (replication), and the one two below it (RocketMQ's fast port).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from contextlib import ExitStack

from staticfire.harness.local_cluster.errors import ClusterError

HOST = "127.0.0.1"
# Below Linux's range for outgoing connections (32768 up): no connection gets such a port by chance.
FREE_LOW = 11_000
FREE_HIGH = 32_000
ATTEMPTS_MAX = 1000
FAST_PORT_DISTANCE = -2
HA_PORT_DISTANCE = 1
BLOCK = (FAST_PORT_DISTANCE, 0, HA_PORT_DISTANCE)


def free_ports(count: int) -> list[int]:
    """Return ports whose blocks are free and do not overlap.

    Another process may take one before its use; then the caller asks again. Raises ClusterError.
    """
    generator = (
        random.SystemRandom()
    )  # processes of one test run must not try the same in the same order
    found: list[int] = []
    with ExitStack() as held:
        for _ in range(ATTEMPTS_MAX):
            if len(found) == count:
                break
            port = generator.randrange(FREE_LOW, FREE_HIGH)
            if _hold_block(port, held):
                found.append(port)
    if len(found) < count:
        raise ClusterError(f"no {count} free ports between {FREE_LOW} and {FREE_HIGH} were found")
    return found


def first_busy(ports: Iterable[int]) -> int | None:
    """Return the first port that cannot be bound; None if all can."""
    for port in ports:
        with ExitStack() as held:
            if not _hold(port, held):
                return port
    return None


def _hold_block(port: int, held: ExitStack) -> bool:
    with ExitStack() as block:
        if all(_hold(port + distance, block) for distance in BLOCK):
            held.push(block.pop_all())
            return True
    return False


def _hold(port: int, held: ExitStack) -> bool:
    holder = held.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((HOST, port))
        holder.listen()  # a socket that is only bound would let another one with SO_REUSEADDR bind, too
    except OSError:
        return False
    return True
