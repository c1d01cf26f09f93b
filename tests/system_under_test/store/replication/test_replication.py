"""Both sides of the HA protocol joined byte by byte, over logs held in memory."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.store.replication import replica_receiver
from staticfire.system_under_test.store.replication.faithful_receiver import FaithfulReceiver
from staticfire.system_under_test.store.replication.replica_receiver import (
    CatchUpReceiver,
    Diverged,
    Reconnect,
    ReplicaReceiver,
    cut_partial_record,
)
from staticfire.system_under_test.store.replication.replication import (
    HEADER,
    REPORT,
    ReplicaSender,
    ReplicationError,
)
from staticfire.system_under_test.store.replication.replication_policy import ReplicationPolicy
from tests.system_under_test.store.memory_log import FILE_SIZE, MemoryLog


def make_log(*payloads: bytes) -> MemoryLog:
    log = MemoryLog()
    for payload in payloads:
        log.put(payload)
    log.flush()
    return log


class Pair:
    """A master and a slave; the connection between them is two byte queues."""

    def __init__(self, master: MemoryLog, slave: MemoryLog, *, flushed_only: bool = False) -> None:
        self.master = master
        self.slave = slave
        self.flushed_only = flushed_only
        self.receiver = ReplicaReceiver(slave, flushed_only=flushed_only)
        self.reconnects = 0
        self.connect()

    def connect(self) -> None:
        self.sender = ReplicaSender(self.master, flushed_only=self.flushed_only)
        self.to_master = bytearray(self.receiver.connected())
        self.to_slave = bytearray()

    def restart_slave(self) -> None:
        self.receiver = ReplicaReceiver(self.slave, flushed_only=self.flushed_only)
        self.connect()

    def step(self, size: int) -> bool:
        """Move up to `size` bytes each way; return whether anything moved or could move."""
        chunk, self.to_master = bytes(self.to_master[:size]), self.to_master[size:]
        if chunk:
            self.sender.receive(chunk)
            self.check_ack()
        self.to_slave += self.sender.next_transfer()
        reply, self.to_slave = bytes(self.to_slave[:size]), self.to_slave[size:]
        try:
            self.receiver.receive(reply)
        except Reconnect:
            self.reconnects += 1
            self.connect()
            return True
        self.to_master += self.receiver.report()
        return bool(chunk or reply or self.to_master or self.to_slave)

    def check_ack(self) -> None:
        """What the master counts as replicated is byte for byte on the slave (with sync flush: on its disk)."""
        acked = self.sender.acked_offset or 0
        begin = max(self.master.min_offset, self.slave.min_offset)
        assert self.slave.data[begin:acked] == self.master.data[begin:acked]
        assert len(self.master.data) >= acked
        if self.flushed_only:
            assert self.slave.flushed_offset >= acked

    def settle(self) -> None:
        for _ in range(10_000):
            moved = self.step(1 << 20)
            self.slave.flush()
            self.to_master += self.receiver.report()
            if not moved and not self.to_master:
                return
        pytest.fail("the pair does not come to rest")


def test_empty_slave_gets_the_whole_log() -> None:
    pair = Pair(make_log(*(b"m%d" % n * 40 for n in range(100))), make_log())
    pair.settle()
    assert pair.slave.data == pair.master.data
    assert pair.sender.acked_offset == pair.master.end_offset


def test_first_report_acknowledges_nothing() -> None:
    log = make_log(b"a" * 100)
    sender = ReplicaSender(log, flushed_only=False)
    assert not sender.receive(REPORT.pack(log.end_offset))
    assert sender.acked_offset is None
    assert sender.receive(REPORT.pack(log.end_offset))
    assert sender.acked_offset == log.end_offset


def test_first_report_beyond_the_end_is_answered_with_the_end_of_the_log() -> None:
    log = make_log(b"a" * 100)
    sender = ReplicaSender(log, flushed_only=False)
    sender.receive(REPORT.pack(log.end_offset + 1))
    assert sender.acked_offset is None
    assert sender.next_transfer() == HEADER.pack(log.end_offset, 0)
    log.put(b"b" * 100)
    assert sender.next_transfer() == b""


@pytest.mark.parametrize("report", [-1, 109, 1 << 62])
def test_later_report_that_cannot_be_true_ends_the_connection(report: int) -> None:
    sender = ReplicaSender(make_log(b"a" * 100), flushed_only=False)
    sender.receive(REPORT.pack(0))
    with pytest.raises(ReplicationError, match=f"acknowledges {report}"):
        sender.receive(REPORT.pack(report))
    assert sender.acked_offset is None


def test_only_the_last_report_of_a_chunk_counts() -> None:
    sender = ReplicaSender(make_log(b"a" * 100), flushed_only=False)
    data = b"".join(map(REPORT.pack, (0, 50, 108)))
    assert not sender.receive(data[:3])
    assert sender.receive(data[3:])
    assert sender.acked_offset == 108


def test_nothing_to_send_is_said_at_once_and_once() -> None:
    log = make_log(b"a" * 100)
    sender = ReplicaSender(log, flushed_only=False)
    assert sender.next_transfer() == b""
    assert sender.heartbeat() == b""
    sender.receive(REPORT.pack(log.end_offset))
    assert sender.next_transfer() == HEADER.pack(log.end_offset, 0)
    assert sender.next_transfer() == b""
    log.put(b"b")
    assert HEADER.unpack_from(sender.next_transfer()) == (108, 9)


def test_sync_flush_sends_and_acknowledges_only_what_is_flushed() -> None:
    master, slave = make_log(), make_log()
    pair = Pair(master, slave, flushed_only=True)
    master.put(b"a" * 100)
    while pair.step(1000):
        pass
    assert slave.end_offset == 0
    master.flush()
    while pair.step(1000):
        pass
    assert slave.end_offset == 108
    assert not pair.sender.acked_offset
    slave.flush()
    assert pair.receiver.report() == REPORT.pack(108)


def test_transfer_never_crosses_a_file_end() -> None:
    log = make_log(*(b"x" * 300 for _ in range(20)))
    sender = ReplicaSender(log, flushed_only=False)
    sender.receive(REPORT.pack(0))
    while transfer := sender.next_transfer():
        offset, size = HEADER.unpack_from(transfer)
        assert len(transfer) == HEADER.size + size
        assert size == 0 or offset // FILE_SIZE == (offset + size - 1) // FILE_SIZE


def test_diverged_tail_is_cut_at_the_first_difference() -> None:
    common = [b"%d" % n * 100 for n in range(20)]
    slave = make_log(*common, b"lost by the master", b"also lost")
    pair = Pair(make_log(*common, b"written later by the master"), slave)
    pair.settle()
    assert pair.slave.data == pair.master.data
    assert pair.reconnects == 1


def test_divergence_before_the_overlap_is_found_further_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_receiver, "OVERLAP_SIZE", 64)
    common = [b"c" * 50 for _ in range(5)]
    slave = make_log(*common, *(b"old %d" % n for n in range(200)))
    pair = Pair(make_log(*common, *(b"new %d" % n for n in range(200))), slave)
    pair.settle()
    assert pair.slave.data == pair.master.data
    assert 4 <= pair.reconnects <= 8  # looks back twice as far each time


def test_tail_that_the_master_lacks_is_kept_until_the_master_writes_there() -> None:
    common = [b"c" * 50 for _ in range(5)]
    master, slave = make_log(*common), make_log(*common, b"maybe the only copy")
    pair = Pair(master, slave)
    pair.settle()
    assert slave.end_offset > master.end_offset
    assert pair.sender.acked_offset == master.end_offset
    master.put(b"another message")
    pair.settle()
    assert slave.data == master.data


def test_master_that_ends_where_the_overlap_starts_is_compared_further_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_receiver, "OVERLAP_SIZE", 58)
    slave = make_log(b"s" * 50, b"x" * 50)
    pair = Pair(make_log(b"m" * 50), slave)
    pair.settle()
    assert slave.data == pair.master.data


def test_much_longer_slave_finds_its_master() -> None:
    records = [b"%03d" % n * 50 for n in range(400)]
    master, slave = make_log(*records[:5]), make_log(*records)
    pair = Pair(master, slave)
    pair.settle()
    assert pair.sender.acked_offset == master.end_offset
    for record in records[5:]:
        master.put(record)
    pair.settle()
    assert slave.data == master.data


def test_equal_blank_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two different logs whose first files end with the same blank: comparing from the blank on finds it equal."""
    monkeypatch.setattr(replica_receiver, "OVERLAP_SIZE", 32)
    slave = make_log(b"s" * 900, b"x" * 200)
    slave.truncate(FILE_SIZE)
    master = make_log(b"m" * 900, b"x" * 200)
    pair = Pair(master, slave)
    pair.settle()
    assert slave.data == master.data


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (HEADER.pack(-1, 5), "transfer of 5 bytes at -1"),
        (HEADER.pack(0, -1), "transfer of -1 bytes"),
        (HEADER.pack(0, (4 << 20) + 1), "transfer of 4194305 bytes"),
        (HEADER.pack(7, 1) + b"x", "transfer at 7, expected 0"),
        (HEADER.pack(500, 0), "master stands at 500 and sent nothing from 0"),
    ],
)
def test_nonsense_from_the_master_ends_the_connection(header: bytes, text: str) -> None:
    receiver = ReplicaReceiver(make_log(b"own"), flushed_only=False)
    receiver.connected()
    with pytest.raises(ReplicationError, match=text):
        receiver.receive(header)


# Catch-up


def catch_up(own: MemoryLog, peer: MemoryLog) -> CatchUpReceiver:
    receiver = CatchUpReceiver(own)
    sender = ReplicaSender(peer, flushed_only=False)
    sender.receive(receiver.connected())
    while transfer := sender.next_transfer():
        receiver.receive(transfer)
    return receiver


@pytest.mark.parametrize(("own_records", "peer_records"), [(0, 0), (0, 50), (30, 50), (50, 50)])
def test_catch_up_fetches_what_the_peer_has_beyond(own_records: int, peer_records: int) -> None:
    records = [b"%03d" % n * 30 for n in range(50)]
    own, peer = make_log(*records[:own_records]), make_log(*records[:peer_records])
    assert catch_up(own, peer).complete
    assert own.data == peer.data


@pytest.mark.parametrize("peer_records", [0, 1, 49])
def test_catch_up_from_a_shorter_peer_takes_nothing(peer_records: int) -> None:
    records = [b"%03d" % n * 30 for n in range(50)]
    own = make_log(*records)
    before = bytes(own.data)
    assert catch_up(own, make_log(*records[:peer_records])).complete
    assert own.data == before


def test_catch_up_ignores_a_diverged_peer() -> None:
    own = make_log(b"a" * 50, b"mine")
    before = bytes(own.data)
    with pytest.raises(Diverged, match="differs from ours at"):
        catch_up(own, make_log(b"a" * 50, b"its own", b"more"))
    assert own.data == before


def test_half_record_of_a_broken_transfer_is_cut() -> None:
    own, peer = make_log(), make_log(b"a" * 50, b"b" * 50)
    own.append_raw(0, bytes(peer.data[:100]))
    assert cut_partial_record(own) == 100 - 58
    assert own.data == peer.data[:58]
    assert cut_partial_record(own) == 0


# Anything may happen


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32), flushed_only=st.booleans(), overlap=st.sampled_from([32, 256, 4096])
)
def test_slave_always_ends_as_a_byte_prefix(seed: int, flushed_only: bool, overlap: int) -> None:
    """Appends, flushes, disconnects and power cuts of either side in any order; then they settle and agree."""
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica_receiver, "OVERLAP_SIZE", overlap)
        pair = Pair(MemoryLog(), MemoryLog(), flushed_only=flushed_only)
        for number in range(random.randrange(200)):
            act(pair, random, number)
        pair.master.put(b"the last word" + random.randbytes(9))
        pair.master.flush()
        for number in range(3000):  # long enough to pass every old tail
            pair.master.put(b"tail %d" % number)
            if pair.master.end_offset > pair.slave.end_offset:
                break
        pair.master.flush()
        pair.connect()
        pair.settle()
    assert pair.slave.data == pair.master.data
    assert pair.sender.acked_offset == pair.master.end_offset


def act(pair: Pair, random: Random, number: int) -> None:
    """One random event. Payloads are unique, so two histories never agree by chance."""
    choice = random.random()
    if choice < 0.45:
        pair.master.put(b"%d " % number + random.randbytes(random.randrange(4, 120)))
    elif choice < 0.60:
        random.choice([pair.master, pair.slave]).flush()
    elif choice < 0.92:
        pair.step(random.choice([1, 5, 20, 100, 1000]))
    elif choice < 0.95:
        pair.connect()
    elif choice < 0.98:
        pair.slave.power_cut()
        pair.restart_slave()
    else:
        pair.master.power_cut()
        pair.connect()


# 4.9.8: each of these is a line of the policy table


def test_a_first_report_beyond_the_end_is_believed_or_not() -> None:
    """R02: everything that the master stores below it would count as replicated."""
    assert acked_after_first_report(Mode.HARDENED) is None
    assert acked_after_first_report(Mode.FAITHFUL) == 5000


def acked_after_first_report(mode: Mode) -> int | None:
    policy = BROKER_POLICIES[mode].replication
    sender = ReplicaSender(
        make_log(b"a" * 100), flushed_only=False, believes_requests=policy.believes_requests
    )
    sender.receive(REPORT.pack(5000))
    return sender.acked_offset


def test_a_new_replica_starts_at_the_first_file_or_at_the_last_one() -> None:
    """R12"""
    log = make_log(*(b"x" * 300 for _ in range(20)))
    starts = [
        BROKER_POLICIES[mode].replication.start_of_new_replica(log, FILE_SIZE)
        for mode in (Mode.HARDENED, Mode.FAITHFUL)
    ]
    assert starts == [0, log.end_offset // FILE_SIZE * FILE_SIZE]


def test_a_slave_with_another_tail_is_repaired_or_stuck() -> None:
    """R37: a plain slave sees heartbeats from where it asked, for ever."""
    common = [b"c" * 50 for _ in range(5)]
    for mode, healed in ((Mode.HARDENED, True), (Mode.FAITHFUL, False)):
        master = make_log(*common, b"new" * 20, b"newer" * 20)
        slave = make_log(*common, b"old" * 20)
        policy = BROKER_POLICIES[mode].replication
        converse(master, slave, policy)
        assert (slave.data == master.data) is healed


def test_a_slave_acknowledges_nothing_behind_a_difference() -> None:
    """More differs than a slave looks back at first, and the master's log goes on behind it."""
    common = [b"c" * 100 for _ in range(5)]
    master = make_log(*common, *(b"new %d" % n + b"n" * 100 for n in range(400)))
    slave = make_log(*common, *(b"old %d" % n + b"o" * 100 for n in range(300)))
    proven_end = make_log(*common).end_offset
    receiver = BROKER_POLICIES[Mode.HARDENED].replication.make_receiver(slave, False)
    for _ in range(10):
        sender = ReplicaSender(master, flushed_only=False, believes_requests=False)
        sender.receive(receiver.connected())
        with suppress(Reconnect, ReplicationError):
            while transfer := sender.next_transfer():
                receiver.receive(transfer)
        if slave.data != master.data:
            for report in (receiver.report(), receiver.repeat_report()):
                assert report == b"" or REPORT.unpack(report)[0] <= proven_end
    assert slave.data == master.data


def converse(master: MemoryLog, slave: MemoryLog, policy: ReplicationPolicy) -> None:
    """Connect again and again, as long as it may help."""
    receiver = policy.make_receiver(slave, False)
    for _ in range(10):
        sender = ReplicaSender(
            master, flushed_only=False, believes_requests=policy.believes_requests
        )
        sender.receive(receiver.connected())
        with suppress(Reconnect, ReplicationError):
            while transfer := sender.next_transfer():
                receiver.receive(transfer)


def test_a_slave_acknowledges_what_is_flushed_or_what_is_appended() -> None:
    for mode, acknowledged in ((Mode.HARDENED, b""), (Mode.FAITHFUL, REPORT.pack(108))):
        receiver = BROKER_POLICIES[mode].replication.make_receiver(slave := MemoryLog(), True)
        receiver.connected()
        master = make_log(b"a" * 100)
        receiver.receive(HEADER.pack(0, 108) + bytes(master.data))
        assert slave.end_offset == 108
        assert receiver.report() == acknowledged


def test_a_plain_slave_refuses_what_does_not_follow_and_repeats_its_end() -> None:
    slave = make_log(b"a" * 100)
    receiver = FaithfulReceiver(slave)
    assert receiver.connected() == REPORT.pack(108)
    assert receiver.repeat_report() == REPORT.pack(108)
    receiver.receive(HEADER.pack(108, 0))
    with pytest.raises(ReplicationError, match="transfer at 200, but the own log ends at 108"):
        receiver.receive(HEADER.pack(200, 0))


class KeepsTrying(Pair):
    """Connects again after an error, as a slave does."""

    def step(self, size: int) -> bool:
        try:
            return super().step(size)
        except ReplicationError:
            self.connect()
            return True


@pytest.mark.parametrize("slave_records", [1, 9, 10, 11, 19, 20, 30])
def test_a_slave_follows_a_master_that_has_deleted_old_files(slave_records: int) -> None:
    payloads = [bytes([number]) * 200 for number in range(20)]  # four in a file
    master, slave = make_log(*payloads), make_log(*payloads[:slave_records])
    master.delete_before(2 * FILE_SIZE)

    pair = KeepsTrying(master, slave)
    pair.settle()

    begin = max(master.min_offset, slave.min_offset)
    assert slave.data[begin:] == master.data[begin:]
    assert pair.sender.acked_offset == master.end_offset


def test_what_differs_is_cut_also_behind_files_that_the_master_has_deleted() -> None:
    payloads = [bytes([number]) * 200 for number in range(20)]
    master = make_log(*payloads)
    slave = make_log(*payloads[:14], b"x" * 200)
    master.delete_before(2 * FILE_SIZE)
    KeepsTrying(master, slave).settle()
    assert slave.data[2 * FILE_SIZE :] == master.data[2 * FILE_SIZE :]


LONG, OTHER = bytes(200), bytes(60) + b"x" * 140


def test_a_peer_that_ends_inside_a_record_that_differs_is_another_log() -> None:
    own, peer = make_log(b"same", LONG), make_log(b"same", OTHER)
    del peer.data[-40:]
    receiver = CatchUpReceiver(own)
    receiver.connected()
    receiver.receive(HEADER.pack(0, len(peer.data)) + bytes(peer.data))
    with pytest.raises(Diverged):
        receiver.receive(HEADER.pack(len(peer.data), 0))
    assert not receiver.complete


def test_a_slave_cuts_a_record_of_which_its_master_has_another_beginning() -> None:
    slave, master = make_log(b"same", LONG), make_log(b"same", OTHER)
    del master.data[-40:]
    receiver = ReplicaReceiver(slave, flushed_only=False)
    receiver.connected()
    receiver.receive(HEADER.pack(0, len(master.data)) + bytes(master.data))
    with pytest.raises(Reconnect):
        receiver.receive(HEADER.pack(len(master.data), 0))
    assert slave.data == make_log(b"same").data
