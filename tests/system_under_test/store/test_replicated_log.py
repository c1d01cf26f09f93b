"""A log that is fed by another one: raw bytes in pieces of any size, cuts, and crashes in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import PowerCut
from staticfire.system_under_test.store.errors import NoSpace, RecordInvalid, StoreError
from staticfire.system_under_test.store.replication.replica_receiver import (
    CatchUpReceiver,
    Reconnect,
    ReplicaReceiver,
)
from staticfire.system_under_test.store.replication.replication import (
    HEADER,
    REPORT,
    ReplicaSender,
    ReplicatedLog,
)
from tests.system_under_test.store.store_on_disk import LOG_FOLDER, StoreOnDisk, make_message

Receives = Callable[[ReplicatedLog], ReplicaReceiver | CatchUpReceiver]


def as_slave(log: ReplicatedLog) -> ReplicaReceiver:
    return ReplicaReceiver(log, flushed_only=True)


@pytest.fixture
def master() -> StoreOnDisk:
    """30 messages in files of 1024 bytes, in two queues."""
    world = StoreOnDisk("master")
    world.open()
    world.put_visible(*[make_message(b"%03d" % n, queue_id=n % 2) for n in range(30)])
    return world


@pytest.fixture
def slave() -> StoreOnDisk:
    world = StoreOnDisk("slave")
    world.open()
    return world


def replicate(master: StoreOnDisk, slave: StoreOnDisk, size: int, end: int | None = None) -> None:
    """Copy up to `end` (the master's, by default) in pieces of `size`."""
    end = master.store.end_offset if end is None else end
    position = slave.store.end_offset
    while position < end:
        data = master.store.read_raw(position, min(size, end - position))
        slave.store.append_raw(position, data)
        position += len(data)


@pytest.mark.parametrize("size", [1, 7, 100, 1024, 32_768])
def test_pieces_of_any_size(master: StoreOnDisk, slave: StoreOnDisk, size: int) -> None:
    replicate(master, slave, size)
    slave.flush()
    assert len(slave.store.dispatch()) == 30
    assert slave.files(LOG_FOLDER) == master.files(LOG_FOLDER)
    for queue_id in (0, 1):
        assert slave.bodies(queue_id=queue_id) == master.bodies(queue_id=queue_id)


def test_reads_never_cross_a_file(master: StoreOnDisk) -> None:
    assert len(master.store.read_raw(1000, 5000)) == 24
    assert master.store.read_raw(master.store.end_offset, 5000) == b""


def test_a_put_is_readable_for_replicas_before_its_flush(master: StoreOnDisk) -> None:
    result = master.put()
    assert len(master.store.read_raw(result.physical_offset, 5000)) == result.size_bytes


def test_bytes_of_another_offset_are_refused(master: StoreOnDisk, slave: StoreOnDisk) -> None:
    replicate(master, slave, 1024, end=1024)
    with pytest.raises(RecordInvalid, match="do not follow the log, which ends at 1024"):
        slave.store.append_raw(2048, master.store.read_raw(2048, 500))


def test_a_record_that_the_disk_of_the_sender_has_changed_does_not_stop_what_follows(
    master: StoreOnDisk, slave: StoreOnDisk
) -> None:
    data = bytearray(master.store.read_raw(0, 1024))
    data[90] ^= 1
    met: list[int] = []
    slave.store.when_damaged(met.append)
    slave.store.append_raw(0, bytes(data))
    assert met == [0]
    assert slave.store.look_up(0) is None
    replicate(master, slave, 1024)
    assert slave.store.mend_record(0, master.store.look_up(0) or b"")
    assert slave.files(LOG_FOLDER) == master.files(LOG_FOLDER)


def test_bytes_that_are_no_record_are_refused(master: StoreOnDisk, slave: StoreOnDisk) -> None:
    data = bytearray(master.store.read_raw(0, 1024))
    data[4] ^= 1
    with pytest.raises(RecordInvalid, match="the bytes for 0 are no record of that offset"):
        slave.store.append_raw(0, bytes(data))
    assert slave.store.end_offset == 0
    replicate(master, slave, 1024)


def test_an_empty_slave_begins_where_the_master_begins(
    master: StoreOnDisk, slave: StoreOnDisk
) -> None:
    slave.store.append_raw(2048, master.store.read_raw(2048, 1024))
    replicate(master, slave, 1024)
    slave.flush()
    slave.store.dispatch()
    low, high = slave.store.queue_bounds("TopicTest", 0)
    assert 0 < low < high == 15
    assert slave.bodies() == master.bodies()[low:]
    slave.kill()
    assert slave.open().end_offset == master.store.end_offset
    assert slave.store.min_offset == 2048
    assert slave.store.queue_bounds("TopicTest", 0) == (low, high)
    assert slave.bodies() == master.bodies()[low:]


def test_half_a_record_is_held_back(master: StoreOnDisk, slave: StoreOnDisk) -> None:
    boundary = master.store.record_start_before(700)
    slave.store.append_raw(0, master.store.read_raw(0, boundary + 20))
    assert slave.store.end_offset == boundary
    slave.store.append_raw(boundary + 20, master.store.read_raw(boundary + 20, 200))
    assert slave.store.end_offset > boundary
    replicate(master, slave, 1024)
    assert slave.files(LOG_FOLDER) == master.files(LOG_FOLDER)


def test_half_a_record_may_be_sent_again(master: StoreOnDisk, slave: StoreOnDisk) -> None:
    boundary = master.store.record_start_before(700)
    slave.store.append_raw(0, master.store.read_raw(0, boundary + 20))
    slave.store.append_raw(boundary, master.store.read_raw(boundary, 1024))
    assert slave.store.end_offset == 1024


def test_a_put_drops_half_a_record(master: StoreOnDisk, slave: StoreOnDisk) -> None:
    boundary = master.store.record_start_before(700)
    slave.store.append_raw(0, master.store.read_raw(0, boundary + 20))
    result = slave.put()
    assert result.physical_offset == boundary
    with pytest.raises(RecordInvalid, match="do not follow"):
        slave.store.append_raw(boundary + 20, master.store.read_raw(boundary + 20, 200))


def test_a_full_slave_appends_nothing(master: StoreOnDisk, slave: StoreOnDisk) -> None:
    slave.disk.fill(free_bytes=0)
    with pytest.raises(NoSpace, match="no space for"):
        replicate(master, slave, 1024)
    assert slave.store.end_offset == 0
    slave.disk.free()
    replicate(master, slave, 1024)


def test_record_start_before(master: StoreOnDisk) -> None:
    store = master.store
    end = store.end_offset
    starts = sorted({store.record_start_before(offset) for offset in range(end + 10)})
    assert starts[0] == 0
    assert starts[-1] == end
    blanks = 3  # one at the end of each full file
    assert len(starts) == 30 + blanks + 1
    assert store.record_start_before(-5) == 0


# --- truncate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 7, 15, 29])
def test_truncate(master: StoreOnDisk, number: int) -> None:
    (low, high) = (0, 0)
    offset = 0
    for _ in range(number):  # the start of message `number`
        record = master.store.look_up(offset) or master.store.look_up(offset + 1024 - offset % 1024)
        assert record is not None
        offset = int.from_bytes(record[28:36], "big") + len(record)
    master.store.truncate(offset)
    master.cut_power()
    assert master.open().end_offset == offset
    low, high = master.store.queue_bounds("TopicTest", 0)
    assert (low, high) == (0, (number + 1) // 2)
    master.put_visible(make_message(b"new"))
    assert master.bodies()[-1] == b"new"


def test_truncate_only_at_a_record(master: StoreOnDisk) -> None:
    with pytest.raises(StoreError, match="10 is no record boundary"):
        master.store.truncate(10)
    with pytest.raises(StoreError, match="no record boundary"):
        master.store.truncate(master.store.end_offset + 1)


def test_a_flush_begun_before_a_truncate_proves_nothing(master: StoreOnDisk) -> None:
    boundary = master.store.record_start_before(1500)
    master.put()
    task = master.store.begin_flush()
    assert task is not None
    master.store.truncate(boundary)
    master.put()
    task.run()
    assert master.store.finish_flush(task) == boundary


def test_a_checkpoint_never_vouches_for_what_a_truncate_took(master: StoreOnDisk) -> None:
    """What follows a cut may be older than what was cut; recovery must not skip the new queue entries."""
    master.clock.now_ms += 60_000
    master.put_visible(*[make_message(b"late") for _ in range(10)])
    queue_task = master.store.begin_queue_flush()
    assert queue_task is not None
    queue_task.run()
    master.store.truncate(1024)
    master.store.finish_queue_flush(queue_task)
    master.clock.now_ms -= 60_000
    kept = len(master.bodies())
    for start in range(0, 40, 10):
        master.put_visible(*[make_message(b"%d" % (start + n)) for n in range(10)])
    master.cut_power()
    master.open()
    assert master.bodies()[kept:] == [b"%d" % n for n in range(40)]


def grow(world: StoreOnDisk, random: Random, count: int) -> None:
    for _ in range(count):
        size = int(random.random() * 300)
        world.put(make_message(bytes([65 + size % 26]) * size, queue_id=size % 3))
        world.clock.now_ms += int(random.random() * 2_000)
    world.flush()
    world.store.dispatch()


class Acknowledged:
    """How much of the log the slave may have acknowledged: that must survive."""

    end = 0


def live_as_slave(
    master: StoreOnDisk, slave: StoreOnDisk, random: Random, acked: Acknowledged
) -> None:
    """Follow the master, flush, dispatch and cut at random."""
    for _ in range(12):
        choice = int(random.random() * 10)
        if choice == 0:
            boundary = slave.store.record_start_before(int(random.random() * acked.end))
            acked.end = min(acked.end, boundary)
            slave.store.truncate(boundary)
        elif choice < 6:
            end = min(master.store.end_offset, slave.store.end_offset + int(random.random() * 900))
            replicate(master, slave, 1 + int(random.random() * 400), end)
        elif choice == 6:
            slave.store.dispatch()
            task = slave.store.begin_queue_flush()
            if task is not None:
                task.run()
                slave.store.finish_queue_flush(task)
        else:
            acked.end = slave.flush()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_a_slave_survives_crashes_as_a_prefix_of_its_master(seed: int) -> None:
    random = Random(f"slave {seed}")
    master, slave = StoreOnDisk(f"m{seed}"), StoreOnDisk(f"s{seed}")
    master.open()
    slave.open()
    for _ in range(4):
        grow(master, random, 15)
        acked = Acknowledged()
        acked.end = slave.store.flushed_offset
        slave.disk.cut_at(1 + int(random.random() * 120))
        with suppress(PowerCut):
            live_as_slave(master, slave, random, acked)
        slave.cut_power()
        slave.open()
        end = slave.store.end_offset
        assert acked.end <= end
        assert slave.store.read_raw(0, 1024) == master.store.read_raw(0, min(1024, end))
        for queue_id in range(3):
            bodies = slave.bodies(queue_id=queue_id)
            assert bodies == master.bodies(queue_id=queue_id)[: len(bodies)]
        replicate(master, slave, 500)
        slave.flush()
        slave.store.dispatch()
        for queue_id in range(3):
            assert slave.bodies(queue_id=queue_id) == master.bodies(queue_id=queue_id)
        assert slave.files(LOG_FOLDER) == master.files(LOG_FOLDER)


@pytest.mark.parametrize("reopened", [False, True])
def test_a_log_that_begins_again_goes_on_with_another_part_of_the_master(
    master: StoreOnDisk, slave: StoreOnDisk, reopened: bool
) -> None:
    replicate(master, slave, 1024, end=1024)
    slave.flush()
    slave.store.dispatch()
    with pytest.raises(RecordInvalid, match="no log file starts at 2050"):
        slave.store.begin_again(2050)
    slave.store.begin_again(2048)
    if reopened:
        slave.store.close()
        slave.open()
        assert slave.store.end_offset in (0, 2048)
    position = 2048
    while position < master.store.end_offset:
        data = master.store.read_raw(position, 4096)
        slave.store.append_raw(position, data)
        position += len(data)
    slave.flush()
    slave.store.dispatch()
    assert (slave.store.min_offset, slave.store.end_offset) == (2048, master.store.end_offset)
    for queue_id in (0, 1):
        low, high = slave.store.queue_bounds("TopicTest", queue_id)
        assert high == master.store.queue_bounds("TopicTest", queue_id)[1]
        assert 0 < low < high


def follow(
    master: StoreOnDisk,
    slave: StoreOnDisk,
    receiver: ReplicaReceiver | CatchUpReceiver,
    piece: int,
) -> None:
    """Let a receiver hear its sender out, `piece` bytes at a time."""
    sender = ReplicaSender(master.store, flushed_only=True)
    sender.receive(receiver.connected())
    while transfer := sender.next_transfer():
        for at in range(0, len(transfer), piece):
            receiver.receive(transfer[at : at + piece])
    slave.flush()


def rot_body(world: StoreOnDisk, offset: int) -> None:
    world.disk.flip_bit(
        world.log_file(offset - offset % 1024), within=(offset % 1024 + 88, offset % 1024 + 90)
    )


@pytest.fixture
def followed(master: StoreOnDisk, slave: StoreOnDisk) -> int:
    """A record in the middle of what both have; the master has two more than the slave."""
    replicate(master, slave, 1024)
    slave.flush()
    slave.store.dispatch()
    master.put_visible(make_message(b"more"), make_message(b"more"))
    return master.store.record_start_before(2500)


@pytest.mark.parametrize("piece", [1 << 20, 7])
@pytest.mark.parametrize("make_receiver", [as_slave, CatchUpReceiver])
def test_a_replica_mends_its_damaged_record_while_it_compares(
    master: StoreOnDisk, slave: StoreOnDisk, followed: int, make_receiver: Receives, piece: int
) -> None:
    rot_body(slave, followed)
    follow(master, slave, make_receiver(slave.store), piece)
    assert slave.files(LOG_FOLDER) == master.files(LOG_FOLDER)


@pytest.mark.parametrize("piece", [1 << 20, 7])
@pytest.mark.parametrize("make_receiver", [as_slave, CatchUpReceiver])
def test_a_replica_keeps_its_sound_copy_of_what_the_sender_has_damaged(
    master: StoreOnDisk, slave: StoreOnDisk, followed: int, make_receiver: Receives, piece: int
) -> None:
    copy = master.store.look_up(followed)
    assert copy is not None
    rot_body(master, followed)
    follow(master, slave, make_receiver(slave.store), piece)
    assert slave.store.look_up(followed) == copy
    assert slave.store.end_offset == master.store.end_offset
    assert master.store.mend_record(followed, copy)
    assert slave.files(LOG_FOLDER) == master.files(LOG_FOLDER)


def test_two_sound_records_that_differ_are_another_log(
    master: StoreOnDisk, slave: StoreOnDisk, followed: int
) -> None:
    """The header may agree up to the times."""
    other = bytearray(master.store.look_up(followed) or b"")
    other[40:48] = (1).to_bytes(8, "big")  # the born timestamp
    slave.write(slave.log_file(2048), bytes(other), followed - 2048)
    with pytest.raises(Reconnect):
        follow(master, slave, ReplicaReceiver(slave.store, flushed_only=True), 1 << 20)
    assert slave.store.end_offset == followed


def test_nothing_is_acknowledged_while_a_record_is_disputed(
    master: StoreOnDisk, slave: StoreOnDisk, followed: int
) -> None:
    rot_body(master, followed)
    sender = ReplicaSender(master.store, flushed_only=True)
    receiver = ReplicaReceiver(slave.store, flushed_only=True)
    sender.receive(receiver.connected())
    while transfer := sender.next_transfer():
        start, size = HEADER.unpack_from(transfer)
        if size and start <= followed < start + size:
            break
        receiver.receive(transfer)
    position = HEADER.size + followed - start + 95  # in the body that differs
    # A transfer is taken as a whole: let this one end in the middle of the record.
    receiver.receive(HEADER.pack(start, position - HEADER.size) + transfer[HEADER.size : position])
    assert REPORT.unpack(receiver.repeat_report()) == (followed,)
