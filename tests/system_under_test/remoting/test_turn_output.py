"""Connections of one node are flushed together, once a turn of the loop."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.remoting import TurnOutput
from tests.system_under_test.remoting.manual_loop import ManualLoop


class Recorder:
    """A writer that counts its flushes."""

    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_all_are_flushed_by_one_callback_in_the_next_turn() -> None:
    loop, output = ManualLoop(), TurnOutput()
    writers = [Recorder(), Recorder()]
    for writer in writers:
        output.add(writer, loop.loop)
    assert loop.soon == 1
    assert [writer.flushes for writer in writers] == [0, 0]
    loop.turn()
    loop.turn()
    assert [writer.flushes for writer in writers] == [1, 1]


def test_a_block_flushes_at_its_end_and_needs_no_turn() -> None:
    loop, output, writer = ManualLoop(), TurnOutput(), Recorder()
    with output:
        output.add(writer, loop.loop)
        assert writer.flushes == 0
    assert (writer.flushes, loop.soon) == (1, 0)


def test_a_block_that_fails_flushes_what_it_has_written() -> None:
    loop, output, writer = ManualLoop(), TurnOutput(), Recorder()
    with pytest.raises(ZeroDivisionError), output:
        output.add(writer, loop.loop)
        raise ZeroDivisionError
    assert writer.flushes == 1
    output.add(writer, loop.loop)
    assert loop.soon == 1
