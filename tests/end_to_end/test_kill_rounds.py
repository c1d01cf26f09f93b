"""The real cluster on loopback: real sockets, real files, SIGKILL and restart under load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.kill_rounds import kill_rounds
from tests.support.local_processes import LocalPair

pytestmark = pytest.mark.real


def test_nothing_acknowledged_is_lost_when_a_lone_master_is_killed(tmp_path: Path) -> None:
    with LocalPair(tmp_path) as pair:
        load, keys = asyncio.run(kill_rounds(pair, rounds=3, acks_a_round=40))
    assert len(load.acknowledged) >= 160
    assert set(load.acknowledged) <= set(keys)


def test_nothing_acknowledged_is_lost_when_the_master_of_a_pair_is_killed(tmp_path: Path) -> None:
    with LocalPair(tmp_path, with_slave=True) as pair:
        load, keys = asyncio.run(kill_rounds(pair, rounds=2, acks_a_round=40))
    assert len(load.acknowledged) >= 120
    assert set(load.acknowledged) <= set(keys)


def test_sigterm_ends_every_node_with_status_0(tmp_path: Path) -> None:
    with LocalPair(tmp_path, with_slave=True) as pair:
        assert [node.stop() for node in reversed(pair.nodes)] == [0, 0, 0]
