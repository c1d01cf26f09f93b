"""A master with up to three slaves as a state machine: every order of appends, flushes, transfers, crashes and repairs.

The two ends of each connection are byte queues, so a connection may break inside a report or a transfer. A master that
restarts after a power cut, or with a new disk, hears all slaves before it takes messages again, as HaService does.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from staticfire.system_under_test.store.replication.replica_receiver import (
    CatchUpReceiver,
    Diverged,
    Reconnect,
    ReplicaReceiver,
    cut_partial_record,
)
from staticfire.system_under_test.store.replication.replication import ReplicaSender
from tests.system_under_test.store.memory_log import MemoryLog

pytestmark = pytest.mark.slow

slave_numbers = st.integers(0, 2)  # taken modulo the number of slaves


def transfer_some(sender: ReplicaSender, receiver: CatchUpReceiver, size: int) -> None:
    """Let this many bytes arrive, or all that there are. Raises Diverged."""
    while size > 0 and (transfer := sender.next_transfer()):
        receiver.receive(transfer[:size])
        size -= len(transfer)


class Slave:
    """A slave and its connection to the master, if there is one."""

    def __init__(self, *, flushed_only: bool) -> None:
        self.flushed_only = flushed_only
        self.log = MemoryLog()
        self.disconnect()
        self.restart()

    def restart(self) -> None:
        self.disconnect()
        self.receiver = ReplicaReceiver(self.log, flushed_only=self.flushed_only)

    def disconnect(self) -> None:
        self.sender: ReplicaSender | None = None
        self.to_master = b""
        self.to_slave = b""

    def connect(self, master: MemoryLog) -> None:
        self.sender = ReplicaSender(master, flushed_only=self.flushed_only)
        self.to_master = self.receiver.connected()
        self.to_slave = b""

    @property
    def acked(self) -> int:
        return 0 if self.sender is None else self.sender.acked_offset or 0

    def to_master_moves(self, size: int) -> None:
        if self.sender is not None:
            chunk, self.to_master = self.to_master[:size], self.to_master[size:]
            self.sender.receive(chunk)

    def to_slave_moves(self, size: int) -> None:
        if self.sender is None:
            return
        while transfer := self.sender.next_transfer():
            self.to_slave += transfer
        chunk, self.to_slave = self.to_slave[:size], self.to_slave[size:]
        try:
            self.receiver.receive(chunk)
        except Reconnect:
            self.disconnect()
            return
        self.to_master += self.receiver.report()


class Replication(RuleBasedStateMachine):
    """`acknowledged` is what a synchronous master has promised: the log up to there is on it and on one slave."""

    @initialize(flushed_only=st.booleans(), count=st.integers(1, 3), records=st.integers(0, 30))
    def set_up(self, flushed_only: bool, count: int, records: int) -> None:
        self.flushed_only = flushed_only
        self.master = MemoryLog()
        self.slaves = [Slave(flushed_only=flushed_only) for _ in range(count)]
        self.promised = b""  # the bytes that were acknowledged
        self.serves = True
        self.number = 0
        self.is_lifted = False
        if records:
            self.append([100] * records)
            for slave in self.slaves:
                self._settle(slave)
            self.acknowledge()

    # Load

    @precondition(lambda self: self.serves)
    @rule(sizes=st.lists(st.integers(4, 400), min_size=1, max_size=5))
    def append(self, sizes: list[int]) -> None:
        for size in sizes:
            self.number += 1  # unique payloads: two histories never agree by chance
            self.master.put(b"%06d " % self.number + b"x" * size)

    @rule()
    def flush_master(self) -> None:
        self.master.flush()

    @rule(number=slave_numbers)
    def flush_slave(self, number: int) -> None:
        slave = self._slave(number)
        slave.log.flush()
        if slave.sender is not None:
            slave.to_master += slave.receiver.report()

    @rule(number=slave_numbers, size=st.sampled_from([1, 13, 400, 1 << 20, 1 << 20]))
    def exchange(self, number: int, size: int) -> None:
        """Up to `size` bytes arrive on each way; the first report needs a connection."""
        slave = self._slave(number)
        if slave.sender is None:
            slave.connect(self.master)
        slave.to_master_moves(size)
        slave.to_slave_moves(size)
        slave.to_master_moves(size)

    @precondition(lambda self: self.serves)
    @rule()
    def acknowledge(self) -> None:
        """Answer all waiting sends: the log is safe up to here."""
        end = max(slave.acked for slave in self.slaves)
        if self.flushed_only:
            end = min(end, self.master.flushed_offset)
        if end > len(self.promised):
            self.promised = bytes(self.master.data[:end])

    # Disturbances

    @precondition(lambda self: self.serves)
    @rule(kind=st.sampled_from(["crash", "power cut", "power cut", "disk lost"]))
    def master_fails(self, kind: str) -> None:
        """A crash leaves the page cache, a power cut what was flushed, the loss of the disk nothing."""
        if kind == "power cut":
            self.master.power_cut()
        elif kind == "disk lost":
            self.master.truncate(0)
        self._master_is_back()

    def _master_is_back(self) -> None:
        """With async flush, and with an empty log, it serves once it has heard all slaves."""
        for slave in self.slaves:
            slave.disconnect()
        self.serves = self.flushed_only and self.master.end_offset > 0
        self.unheard = [] if self.serves else list(self.slaves)

    @precondition(lambda self: not self.serves)
    @rule(number=slave_numbers, size=st.sampled_from([100, 1 << 20, 1 << 20]))
    def hear_slave(self, number: int, size: int) -> None:
        """Fetch from a slave what it has; the connection may break after `size` bytes."""
        slave = self.unheard[number % len(self.unheard)]
        if self._hear(self.master, slave, size):
            self.unheard.remove(slave)
        if not self.unheard:
            self._serve_again()

    def _serve_again(self) -> None:
        """What was fetched is durable before the master serves (Broker._caught_up), so a power cut leaves all of it."""
        cut_partial_record(self.master)
        self.master.flush()
        self.serves = True

    @precondition(lambda self: not self.serves)
    @rule()
    def lift(self) -> None:
        """An admin does without the slaves that were not heard: nothing else is promised any more."""
        self._serve_again()
        self.is_lifted = True
        self.promised = b""

    def _hear(self, log: MemoryLog, slave: Slave, size: int) -> bool:
        slave.disconnect()  # what an old master left in the network must not arrive any more
        receiver = CatchUpReceiver(log)
        sender = ReplicaSender(slave.log, flushed_only=self.flushed_only)
        sender.receive(receiver.connected())
        try:
            transfer_some(sender, receiver, size)
        except Diverged:
            assert self.is_lifted
            return True
        finally:
            cut_partial_record(log)
        return receiver.complete

    @precondition(lambda self: self.flushed_only)
    @rule(number=slave_numbers)
    def cut_power_of_slave(self, number: int) -> None:
        """Only with sync flush: two power cuts together may take what was promised otherwise."""
        slave = self._slave(number)
        slave.log.power_cut()
        slave.restart()

    @precondition(lambda self: self.serves)
    @rule(number=slave_numbers)
    def wipe_slave(self, number: int) -> None:
        """Replace a slave by an empty one and let it catch up, while the master has everything."""
        if self.master.data[: len(self.promised)] == self.promised:
            slave = self._slave(number)
            slave.log.truncate(0)
            slave.restart()
            self._settle(slave)

    @rule(number=slave_numbers)
    def break_connection(self, number: int) -> None:
        self._slave(number).disconnect()

    @rule(number=slave_numbers, peer=slave_numbers, size=st.integers(1, 3000))
    def hear_peer(self, number: int, peer: int, size: int) -> None:
        """A slave without a master asks another slave."""
        slave, other = self._slave(number), self._slave(peer)
        if slave is not other and slave.sender is None:
            receiver = CatchUpReceiver(slave.log)
            sender = ReplicaSender(other.log, flushed_only=self.flushed_only)
            sender.receive(receiver.connected())
            try:
                transfer_some(sender, receiver, size)
            except Diverged:
                assert self.is_lifted
            cut_partial_record(slave.log)

    def _slave(self, number: int) -> Slave:
        return self.slaves[number % len(self.slaves)]

    def _settle(self, slave: Slave) -> None:
        """Let a connection come to rest, and slave and master agree."""
        self.master.flush()
        for _ in range(500):
            if slave.sender is None:
                slave.connect(self.master)
            slave.to_master_moves(1 << 20)
            slave.to_slave_moves(1 << 20)
            slave.log.flush()
            slave.to_master += slave.receiver.report()
            if slave.acked == self.master.end_offset and not slave.to_master:
                return
        raise AssertionError("slave and master do not come to rest")

    # Invariants

    @invariant()
    def what_was_promised_survives(self) -> None:
        copies = [self.master.data, *(slave.log.data for slave in self.slaves)]
        held = [copy for copy in copies if copy[: len(self.promised)] == self.promised]
        assert held or self.is_lifted
        if self.serves and not self.is_lifted:
            assert self.master.data[: len(self.promised)] == self.promised

    @invariant()
    def what_a_slave_acknowledged_it_has(self) -> None:
        for slave in self.slaves:
            acked = slave.acked
            assert acked <= self.master.end_offset
            assert slave.log.data[:acked] == self.master.data[:acked]
            if self.flushed_only:
                assert slave.log.flushed_offset >= acked

    @invariant()
    def replicas_have_one_history(self) -> None:
        """A slave is a byte prefix of the master, or the master of a slave that it has yet to hear."""
        for slave in [] if self.is_lifted else self.slaves:
            common = min(slave.log.end_offset, self.master.end_offset)
            assert slave.log.data[:common] == self.master.data[:common]

    def teardown(self) -> None:
        """In the end master and slaves agree."""
        while not self.serves:
            self.hear_slave(0, 1 << 30)
        while any(slave.log.end_offset >= self.master.end_offset for slave in self.slaves):
            self.append(
                [400]
            )  # whatever a lift gave up is cut when something else is written there
        for slave in self.slaves:
            self._settle(slave)
            assert slave.log.data == self.master.data


Replication.TestCase.settings = settings(max_examples=200, stateful_step_count=50)
TestReplication = Replication.TestCase


# Stories that random rules meet too rarely

MUCH = 1 << 20


def machine(*, flushed_only: bool) -> Replication:
    """A master with two slaves that have ten messages."""
    replication = Replication()
    replication.set_up(flushed_only=flushed_only, count=2, records=10)
    return replication


def check(replication: Replication) -> None:
    replication.what_was_promised_survives()
    replication.what_a_slave_acknowledged_it_has()
    replication.replicas_have_one_history()


def test_the_disk_is_lost_and_only_one_slave_has_everything() -> None:
    replication = machine(flushed_only=False)
    replication.append([50] * 3)
    replication.exchange(0, MUCH)
    replication.acknowledge()
    replication.master_fails("disk lost")
    replication.hear_slave(1, MUCH)
    replication.hear_slave(0, MUCH)
    check(replication)
    replication.teardown()


def test_power_is_cut_after_a_catch_up_that_was_flushed_in_the_middle() -> None:
    replication = machine(flushed_only=True)
    replication.append([50] * 30)
    replication.flush_master()
    replication.exchange(0, MUCH)
    replication.flush_slave(0)
    replication.exchange(0, MUCH)
    replication.acknowledge()
    replication.master_fails("disk lost")
    replication.hear_slave(0, 1100)
    replication.flush_master()
    replication.hear_slave(0, MUCH)
    replication.hear_slave(0, MUCH)
    replication.master_fails("power cut")
    check(replication)
    replication.teardown()


def test_nothing_unflushed_is_sent_that_a_power_cut_could_take() -> None:
    replication = machine(flushed_only=True)
    replication.append([50])
    replication.exchange(0, MUCH)
    replication.master_fails("power cut")
    replication.append([60])
    replication.flush_master()
    check(replication)
    replication.teardown()


def test_after_a_lift_a_longer_slave_acknowledges_nothing_that_it_lacks() -> None:
    replication = machine(flushed_only=False)
    replication.append([50] * 5)
    replication.exchange(0, MUCH)
    replication.master_fails("power cut")
    replication.lift()
    replication.append([60])
    replication.exchange(0, MUCH)
    check(replication)
    replication.teardown()
