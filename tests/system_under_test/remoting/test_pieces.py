"""Long answers take turns: one piece of one of them in each turn of the loop."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, pieces
from staticfire.system_under_test.remoting.pieces import Pieces
from tests.system_under_test.broker.bench import Peer


class Long:
    """A request whose answer is made in three pieces."""

    def __init__(self, name: str, done: list[str], peer: Peer) -> None:
        self.name = name
        self.peer = peer
        self.request = RemotingCommand.request(310)
        self._done = done
        self._left = 3

    def begin(self, waiting: Pieces) -> RemotingCommand | None:
        def piece(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            self._done.append(self.name)
            self._left -= 1
            if self._left:
                return waiting.go_on(connection, request, piece)
            return RemotingCommand.response(request, 0)

        return waiting.go_on(self.peer.connection, self.request, piece)


def test_one_piece_a_turn_in_turn() -> None:
    done: list[str] = []

    async def main() -> list[int]:
        waiting = Pieces()
        assert not waiting
        peers = Peer(1), Peer(2)
        for name, peer in zip("ab", peers, strict=True):
            assert Long(name, done, peer).begin(waiting) is None
        assert waiting
        counts = []
        for _ in range(6):
            await asyncio.sleep(0)
            counts.append(len(done))
        assert not waiting
        assert [peer.take().code for peer in peers] == [0, 0]
        return counts

    assert asyncio.run(main()) == [1, 2, 3, 4, 5, 6]
    assert done == list("ababab")


def test_who_has_gone_is_not_served() -> None:
    done: list[str] = []

    async def main() -> None:
        waiting, gone = Pieces(), Peer(1)
        Long("a", done, gone).begin(waiting)
        Long("b", done, Peer(2)).begin(waiting)
        gone.close()
        for _ in range(8):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert done == list("bbb")


@pytest.mark.parametrize(("name", "most"), [("WAITING_MAX", 2), ("WAITING_SIZE_MAX", 1100)])
def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.setattr(pieces, name, most)
    done: list[str] = []

    async def main() -> None:
        waiting = Pieces()
        answers = [Long("a", done, Peer()).begin(waiting) for _ in range(3)]
        assert answers[:2] == [None, None]
        assert answers[2] is not None
        assert answers[2].code == ResponseCode.SYSTEM_BUSY
        for _ in range(8):
            await asyncio.sleep(0)
        assert Long("a", done, Peer()).begin(waiting) is None
        for _ in range(4):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert done == ["a"] * 9
