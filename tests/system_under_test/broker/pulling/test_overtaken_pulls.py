"""Commits that overtake a pull: it must not set the offset back."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.pulling import overtaken_pulls
from staticfire.system_under_test.broker.pulling.overtaken_pulls import OvertakenPulls
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.broker.bench import Bench, Peer, pull_ext

QUEUE = "g", "t", 0
COMMITS, SUBSCRIPTION = 1, 4  # flags of a pull


def requests(count: int) -> list[RemotingCommand]:
    """Requests of one client, in their order."""
    made = [RemotingCommand.request(11) for _ in range(count)]
    for number, request in enumerate(made):
        request.opaque = number
    return made


def test_a_pull_that_a_commit_has_overtaken_does_not_count() -> None:
    waiting = True
    overtaken = OvertakenPulls(lambda: waiting)
    mine, other = Peer().connection, Peer().connection
    early, commit, late = requests(3)
    assert not overtaken.includes(mine, early, QUEUE)

    overtaken.committed(mine, commit, QUEUE)

    assert overtaken.includes(mine, early, QUEUE)
    assert not overtaken.includes(mine, late, QUEUE)
    assert not overtaken.includes(other, early, QUEUE)
    assert not overtaken.includes(mine, early, ("g", "t", 1))
    waiting = False  # all earlier pulls have been handled
    overtaken.committed(mine, late, QUEUE)
    assert not overtaken.includes(mine, early, QUEUE)


def test_the_memory_of_commits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overtaken_pulls, "COMMITS_MAX", 2)
    overtaken, mine = OvertakenPulls(lambda: True), Peer().connection
    early, *commits = requests(4)

    for number, commit in enumerate(commits):
        overtaken.committed(mine, commit, ("g", "t", number))

    assert [overtaken.includes(mine, early, ("g", "t", number)) for number in range(3)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(("waits", "committed"), [(True, 7), (False, 5)])
def test_a_waiting_pull_leaves_a_later_commit_of_its_client_alone(
    waits: bool, committed: int
) -> None:
    bench, peer = Bench(), Peer()
    bench.send("TopicTest")
    fields = {"consumerGroup": "g", "topic": "TopicTest", "queueId": "0", "commitOffset": "7"}
    pull = pull_ext("TopicTest", group="g", sys_flag=SUBSCRIPTION | COMMITS, commit_offset=5)
    waiting = RemotingCommand.request(11, pull)
    waiting.opaque = -1  # older than the commit
    bench.pulls_wait = waits

    bench.ask(bench.queries.update_consumer_offset, fields, code=15, peer=peer)
    bench.pull_processor.handle(peer.connection, waiting)

    assert bench.offsets.query("g", "TopicTest", 0) == committed
