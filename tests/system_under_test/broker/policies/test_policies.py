"""Each line of the policy table makes a difference."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from staticfire.system_under_test.broker.config import BrokerRole
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.store.index.key_search import KeyQuery
from tests.system_under_test.store.store_on_disk import START_MS, StoreOnDisk, make_message, search


@dataclass(frozen=True, kw_only=True)
class LogState:
    readable_end: int
    flushed_offset: int


@dataclass(frozen=True, kw_only=True)
class OneSlave:
    replicated_offset: int

    def slave_available(self, end_offset: int) -> bool:
        return True


@pytest.mark.parametrize(
    ("mode", "role", "end"),
    [
        (Mode.HARDENED, BrokerRole.ASYNC_MASTER, 300),
        (Mode.HARDENED, BrokerRole.SYNC_MASTER, 200),
        (Mode.FAITHFUL, BrokerRole.ASYNC_MASTER, 500),
        (Mode.FAITHFUL, BrokerRole.SYNC_MASTER, 500),
    ],
)
def test_consumers_see_what_is_safe_or_what_is_written(
    mode: Mode, role: BrokerRole, end: int
) -> None:
    log = LogState(readable_end=500, flushed_offset=300)
    slave = OneSlave(replicated_offset=200)
    assert BROKER_POLICIES[mode].visible_end(log, slave, role) == end


@pytest.mark.parametrize(("mode", "end"), [(Mode.HARDENED, 200), (Mode.FAITHFUL, 500)])
def test_progress_of_services_counts_safe_or_written_copies(mode: Mode, end: int) -> None:
    """R61; that senders of copies wait or not: test_send_back.py. Transactions: test_transactions.py."""
    copies = BROKER_POLICIES[mode].services.copies
    log = LogState(readable_end=500, flushed_offset=300)
    assert copies.safe_end(log, OneSlave(replicated_offset=200), BrokerRole.SYNC_MASTER) == end
    assert copies.waits is (mode is Mode.HARDENED)


@pytest.mark.parametrize(("mode", "wait_ms"), [(Mode.HARDENED, 1000), (Mode.FAITHFUL, 0)])
def test_delayed_message_from_the_future(mode: Mode, wait_ms: int) -> None:
    """The clock was set back after it was stored."""
    assert BROKER_POLICIES[mode].services.remaining_time(3_600_000, 1000) == wait_ms


@pytest.mark.parametrize(("mode", "goes"), [(Mode.HARDENED, False), (Mode.FAITHFUL, True)])
def test_a_full_disk_makes_unconsumed_messages_go_or_not(mode: Mode, goes: bool) -> None:
    on_disk = StoreOnDisk()
    on_disk.open()
    on_disk.put_visible(make_message())
    may_force = BROKER_POLICIES[mode].may_force
    queues = list(on_disk.store.retention.queues)
    assert may_force(queues, 0, on_disk.store.end_offset, lambda _topic, _queue_id: None) is goes


@pytest.mark.parametrize(
    ("mode", "status"), [(Mode.HARDENED, "PUT_OK"), (Mode.FAITHFUL, "SERVICE_NOT_AVAILABLE")]
)
def test_a_disk_with_space_again_is_used_at_once_or_after_the_next_check(
    mode: Mode, status: str
) -> None:
    on_disk = StoreOnDisk()
    on_disk.open()
    on_disk.store.disks.check_interval_s = BROKER_POLICIES[mode].full_disk_look_s
    on_disk.disk.fill(free_bytes=0)
    on_disk.store.disks.check()
    on_disk.disk.free()
    on_disk.clock.now_ms += 1000
    assert on_disk.store.put(make_message()).status.value == status


@pytest.mark.parametrize(("mode", "found"), [(Mode.HARDENED, 1), (Mode.FAITHFUL, 0)])
def test_a_message_stored_later_in_the_second_where_a_query_begins_is_found_or_not(
    mode: Mode, found: int
) -> None:
    world = StoreOnDisk()
    world.open()
    world.put_visible(make_message(KEYS="k"))
    world.clock.now_ms += 1800
    world.put_visible(make_message(KEYS="k"))  # by the index one second after the first
    query = KeyQuery("TopicTest", "k", 64, START_MS + 1500, START_MS + 2000)
    rules = BROKER_POLICIES[mode].store.key_search
    records = search(world, query, rules).records
    assert len(records) == found


@pytest.mark.parametrize(("mode", "found"), [(Mode.HARDENED, 1), (Mode.FAITHFUL, 2)])
def test_other_keys_of_the_same_hash_are_left_out_or_not(mode: Mode, found: int) -> None:
    world = StoreOnDisk()
    world.open()
    world.put_visible(make_message(KEYS="Aa"), make_message(KEYS="BB"))
    query = KeyQuery("TopicTest", "Aa", 64, 0, START_MS)
    rules = BROKER_POLICIES[mode].store.key_search
    assert len(search(world, query, rules).records) == found
