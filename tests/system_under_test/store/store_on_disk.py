"""A store on a simulated disk, with the words that a test of it needs: put, flush, kill, cut the power, open again."""

from __future__ import annotations

from random import Random

from staticfire.harness.simulation.disk.disk import DiskOptions, SimDisk
from staticfire.system_under_test.protocol.message import Message, decode_record
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE
from staticfire.system_under_test.store.index.key_search import (
    KeyFound,
    KeyQuery,
    KeySearch,
    KeySearchRules,
    ReadRecord,
)
from staticfire.system_under_test.store.recovery.recovery import RecoveryReport
from staticfire.system_under_test.store.results import Dispatched, PutResult, PutStatus

ROOT = "/store"
LOG_FOLDER = f"{ROOT}/commitlog"
QUEUE_FOLDER = f"{ROOT}/consumequeue"
INDEX_FOLDER = f"{ROOT}/index"
START_MS = 1_700_000_000_000


class ScriptedClock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class SilentLog:
    def debug(self, event: str, /, **fields: object) -> None: ...
    def info(self, event: str, /, **fields: object) -> None: ...
    def warning(self, event: str, /, **fields: object) -> None: ...
    def error(self, event: str, /, **fields: object) -> None: ...


def make_message(
    body: bytes = b"body",
    *,
    topic: str = "TopicTest",
    queue_id: int = 0,
    tags: str = "TagA",
    **properties: str,
) -> Message:
    return Message(
        topic=topic,
        body=body,
        queue_id=queue_id,
        properties={"TAGS": tags, **properties},
        born_timestamp_ms=START_MS,
        born_host=("10.0.0.9", 40_000),
        store_host=("10.0.0.1", 10_911),
    )


class StoreOnDisk:
    """`store` is the life that is open now; each `open` begins the next one on the same disk."""

    def __init__(
        self,
        seed: object = 0,
        *,
        root: str = ROOT,
        log_file_size: int = 1024,
        queue_file_size: int = 100,
        index_slots: int = 10,
        index_numbers: int = 20,
        sync_flush: bool = True,
        options: DiskOptions | None = None,
        extends_queues: bool = False,
    ) -> None:
        self.disk = SimDisk(
            random=Random(f"store {seed}"),
            now_ns=lambda: 0,
            charge=lambda ns: None,
            options=options,
        )
        self.clock = ScriptedClock()
        self.config = StoreConfig(
            root=root,
            commit_log_file_size=log_file_size,
            consume_queue_file_size=queue_file_size,
            buffered=sync_flush,
            index_slots=index_slots,
            index_numbers=index_numbers,
            extends_queues=extends_queues,
            extension_file_size=256,
        )
        self.policy = HARDENED_STORE
        self.store = self.new_store()

    def new_store(self) -> MessageStore:
        return MessageStore(self.disk, self.clock, SilentLog(), self.config, policy=self.policy)

    def open(self) -> RecoveryReport:
        self.store = self.new_store()
        return self.store.open()

    def kill(self) -> None:
        """The process dies; the page cache survives."""
        self.disk.release_locks()

    def cut_power(self) -> None:
        self.disk.power_cut()
        self.disk.power_on()

    def put(self, message: Message | None = None) -> PutResult:
        """Put a message that must be accepted."""
        result = self.store.put(message or make_message())
        assert result.status is PutStatus.PUT_OK, result.reason
        return result

    def flush(self) -> int:
        task = self.store.begin_flush()
        if task is None:
            return self.store.flushed_offset
        task.run()
        return self.store.finish_flush(task)

    def flush_queues(self) -> None:
        task = self.store.begin_queue_flush()
        assert task is not None
        task.run()
        self.store.finish_queue_flush(task)

    def put_visible(self, *messages: Message) -> list[Dispatched]:
        """Put, flush and dispatch."""
        for message in messages:
            self.put(message)
        self.flush()
        return self.store.dispatch()

    def found(self, key: str, topic: str = "TopicTest") -> list[bytes]:
        """The bodies of the messages that a key leads to, in log order."""
        query = KeyQuery(topic, key, 64, 0, (1 << 63) - 1)
        return [decode_record(record).body for record in self.store.find_by_key(query).records]

    def bodies(self, topic: str = "TopicTest", queue_id: int = 0) -> list[bytes]:
        """Every message of a queue, read as a consumer does."""
        found: list[bytes] = []
        low, high = self.store.queue_bounds(topic, queue_id)
        offset = low
        while offset < high:
            answer = self.store.get(topic, queue_id, offset, 32)
            assert answer.next_offset > offset, answer
            found += [decode_record(record).body for record in answer.records]
            offset = answer.next_offset
        return found

    def write(self, path: str, data: bytes, offset: int) -> None:
        """Change a file behind the store's back, durably."""
        file = self.disk.open(path)
        file.pwrite(data, offset)
        file.fsync()
        file.close()

    def log_file(self, base: int) -> str:
        return f"{LOG_FOLDER}/{base:020d}"

    def queue_file(self, base: int, topic: str = "TopicTest", queue_id: int = 0) -> str:
        return f"{QUEUE_FOLDER}/{topic}/{queue_id}/{base:020d}"

    def files(self, folder: str) -> dict[str, bytes]:
        """Content by name below `folder`."""
        prefix = f"{folder}/"
        snapshot = self.disk.snapshot()
        return {
            path.removeprefix(prefix): content
            for path, content in snapshot.items()
            if path.startswith(prefix)
        }


def search(
    world: StoreOnDisk, query: KeyQuery, rules: KeySearchRules, read: ReadRecord | None = None
) -> KeyFound:
    """A whole search by these rules; `read` in place of the store's look-up."""
    searching = KeySearch(world.store._index, query, rules, read or world.store.look_up)
    assert searching.step()
    return searching.found
