"""The store against a list of messages: found by queue, id, key and time, whatever is done in whatever order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.store.index.key_search import KeyQuery
from staticfire.system_under_test.store.results import PutResult
from staticfire.system_under_test.store.transient_pool import PoolConfig
from tests.system_under_test.store.store_on_disk import START_MS, StoreOnDisk, make_message

pytestmark = pytest.mark.slow

QUEUES = (0, 1)
KEYS = ("a", "b", "Aa", "BB")  # the last two have one hash
LOG_FOLDERS = ("/store/commitlog", "/b/commitlog", "/c/commitlog")
FOREVER_MS = (1 << 63) - 1


class Put(NamedTuple):
    body: bytes
    queue_id: int
    keys: tuple[str, ...]
    result: PutResult


class StoreMachine(RuleBasedStateMachine):
    """`puts` are all messages in the log; those that end at or before `visible` can be seen."""

    @initialize(
        slots=st.sampled_from([1, 4]),
        numbers=st.sampled_from([3, 8, 100]),
        seed=st.integers(0, 99),
        folders=st.integers(1, 3),
        pool=st.sampled_from([None, PoolConfig(buffers=2, commit_pages=1)]),
    )
    def begin(
        self, slots: int, numbers: int, seed: int, folders: int, pool: PoolConfig | None
    ) -> None:
        self.world = StoreOnDisk(seed, log_file_size=2048, index_slots=slots, index_numbers=numbers)
        self.world.config = replace(self.world.config, pool=pool, log_folders=LOG_FOLDERS[:folders])
        self.world.open()
        self.puts: list[Put] = []
        self.durable = self.visible = 0
        self.count = 0

    # --- work ------------------------------------------------------------------------------------------------------

    @rule(
        queue_id=st.sampled_from(QUEUES),
        keys=st.lists(st.sampled_from(KEYS), max_size=3, unique=True),
        size=st.integers(0, 700),
        later_ms=st.sampled_from([0, 1, 700, 4000]),
    )
    def put(self, queue_id: int, keys: list[str], size: int, later_ms: int) -> None:
        self.world.clock.now_ms += later_ms
        self.count += 1
        body = b"%d " % self.count + bytes(size)
        properties = {"UNIQ_KEY": f"unique-{self.count}", "KEYS": " ".join(keys)} if keys else {}
        result = self.world.put(make_message(body, queue_id=queue_id, **properties))
        self.puts.append(
            Put(body, queue_id, (*keys, *properties.values())[: len(keys) + 1], result)
        )

    @rule()
    def flush(self) -> None:
        self.durable = self.world.flush()

    @rule()
    def commit(self) -> None:
        self.world.store.commit()
        assert self.world.store.readable_end == self.world.store.end_offset

    @rule()
    def dispatch(self) -> None:
        self.world.store.dispatch()
        self.visible = self.world.store.dispatched_offset
        assert self.visible <= self.durable

    @rule()
    def flush_queues(self) -> None:
        task = self.world.store.begin_queue_flush()
        if task is not None:
            task.run()
            self.world.store.finish_queue_flush(task)

    @precondition(lambda self: self.puts)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(max(0, len(self.puts) - 6), len(self.puts) - 1))
        offset = self.puts[number].result.physical_offset
        self.world.store.truncate(offset)
        del self.puts[number:]
        self.durable = offset
        self.visible = min(self.visible, offset)

    # --- ends ------------------------------------------------------------------------------------------------------

    @rule()
    def die(self) -> None:
        pooled = self.world.config.pool is not None
        kept = self.world.store.readable_end
        self.world.kill()
        self._open()
        if pooled:
            assert self.durable >= kept  # what was committed survives the process

    @rule()
    def lose_power(self) -> None:
        self.world.cut_power()
        self._open()

    @rule()
    def close(self) -> None:
        self.world.store.close()
        self.durable = self.world.store.end_offset
        self._open()

    def _open(self) -> None:
        report = self.world.open()
        assert report.end_offset >= self.durable
        self.puts = [put for put in self.puts if put.result.end_offset <= report.end_offset]
        self.durable = self.visible = report.end_offset

    # --- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def found_by_queue(self) -> None:
        for queue_id in QUEUES:
            bodies = [put.body for put in self._visible() if put.queue_id == queue_id]
            assert self.world.bodies(queue_id=queue_id) == bodies

    @invariant()
    def found_by_id(self) -> None:
        for put in self.puts:
            record = self.world.store.look_up(put.result.physical_offset)
            if put.result.end_offset > self.world.store.readable_end:
                assert record is None
                continue
            assert record is not None
            assert decode_record(record, check_crc=True).body == put.body

    @invariant()
    def found_by_key(self) -> None:
        for key in (*KEYS, *(f"unique-{number}" for number in range(1, self.count + 1))):
            bodies = [put.body for put in self._visible() if key in put.keys]
            assert self.world.found(key) == bodies, key

    @invariant()
    def found_by_key_and_time(self) -> None:
        times = [put.result.store_timestamp_ms for put in self.puts][-3:]
        for begin_ms in times:
            query = KeyQuery("TopicTest", "a", 64, begin_ms, FOREVER_MS)
            records = self.world.store.find_by_key(query).records
            assert [decode_record(record).body for record in records] == [
                put.body
                for put in self._visible()
                if "a" in put.keys and put.result.store_timestamp_ms >= begin_ms
            ]

    @invariant()
    def found_by_time(self) -> None:
        puts = [put for put in self._visible() if put.queue_id == 0]
        for time_ms in (START_MS - 1, *(put.result.store_timestamp_ms for put in puts[-3:])):
            offset = self.world.store.queue_view.search_by_time("TopicTest", 0, time_ms)
            nearest = min((abs(put.result.store_timestamp_ms - time_ms) for put in puts), default=0)
            if puts:
                found_ms = puts[offset].result.store_timestamp_ms
                assert abs(found_ms - time_ms) == nearest

    def _visible(self) -> list[Put]:
        return [put for put in self.puts if put.result.end_offset <= self.visible]


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestStoreMachine = StoreMachine.TestCase
