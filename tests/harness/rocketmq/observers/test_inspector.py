"""Comparison of replicas' logs in their common range: each node deletes its oldest files by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.harness.environments.environment import Environment
from staticfire.harness.rocketmq.observers.inspector import (
    DIFFERENCES_MAX,
    Inspector,
    LogBytes,
    differences,
)
from staticfire.harness.simulation.hosts.world import World
from tests.harness.rocketmq.observers.test_queue_files import BASE, entry, log


@pytest.mark.parametrize(
    ("master", "slave", "expected"),
    [
        (LogBytes(0, b"abcd"), LogBytes(0, b"abcd"), None),
        (LogBytes(0, b"abcd"), LogBytes(0, b"ab"), None),
        (LogBytes(0, b"abcd"), LogBytes(0, b"aXcd"), 1),
        (LogBytes(0, b"abcd"), LogBytes(2, b"cd"), None),
        (LogBytes(2, b"cd"), LogBytes(0, b"abcd"), None),
        (LogBytes(2, b"cd"), LogBytes(0, b"abcX"), 3),
        (LogBytes(2, b"cd"), LogBytes(0, b"abcde"), 4),
        (LogBytes(8, b"ij"), LogBytes(0, b"abcd"), None),
        (LogBytes(0, b"abcd"), LogBytes(0, b""), None),
    ],
)
def test_first_difference(master: LogBytes, slave: LogBytes, expected: int | None) -> None:
    assert differences(master, slave) == ([] if expected is None else [expected])


def test_differences_are_counted_up_to_a_limit() -> None:
    assert differences(LogBytes(2, b"abcdef"), LogBytes(2, b"aXcdXf")) == [3, 6]
    assert len(differences(LogBytes(0, b"a" * 1000), LogBytes(0, b"b" * 1000))) == DIFFERENCES_MAX


class OneBroker:
    """An environment whose node has other files at each look; the last ones stay."""

    def __init__(self, *looks: dict[str, bytes]) -> None:
        self.recorder = self
        self.topology = self
        self.acknowledged = 1
        self.replica_sets = ("broker-a",)
        self.seen: dict[str, Any] = {}
        self._looks = list(looks)

    def replicas_of(self, _: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(node="broker-a-0")]

    def is_external(self, _: str) -> bool:
        return False

    is_lost = is_external

    async def store_files(self, _: str) -> dict[str, bytes]:
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def observe(self, _: str, **seen: Any) -> None:
        self.seen = seen


def files(records: int, entries: int) -> dict[str, bytes]:
    queue = b"".join(entry(number) for number in range(entries))
    return {"/store/commitlog/00000000000000000000": log(records), BASE: queue}


@pytest.mark.parametrize(
    ("looks", "missing", "seen"),
    [
        ((files(2, 2),), 0, 2),
        ((files(3, 2), files(3, 3)), 0, 3),  # one had just come
        ((files(3, 2), files(4, 3), files(4, 4)), 0, 4),  # and another one meanwhile
        ((files(3, 2),), 1, 2),
        ((files(3, 2), files(4, 3)), 1, 3),  # one that comes does not stand for one that is missing
    ],
)
def test_records_that_have_just_come_are_looked_for_again(
    looks: tuple[dict[str, bytes], ...], missing: int, seen: int
) -> None:
    broker = OneBroker(*looks)
    World(1).run(Inspector(cast(Environment, broker)).compare_replicas)
    assert (broker.seen["missing"], broker.seen["entries"]) == (missing, seen)


class Replicas(OneBroker):
    """A lost master, and two slaves of which the second one has more."""

    def replicas_of(self, _: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(node=node) for node in ("lost", "shorter", "longer")]

    def is_lost(self, node: str) -> bool:
        return node == "lost"

    async def store_files(self, node: str) -> dict[str, bytes]:
        return files(2, 2) if node == "shorter" else files(3, 3)


def test_the_longest_log_stands_for_that_of_a_lost_master() -> None:
    slaves = Replicas()

    World(1).run(Inspector(cast(Environment, slaves)).compare_replicas)

    assert (slaves.seen["master"], slaves.seen["slave"]) == ("longer", "shorter")
    assert (slaves.seen["master_end"], slaves.seen["slave_end"]) == (len(log(3)), len(log(2)))
    assert slaves.seen["first_difference"] is None
