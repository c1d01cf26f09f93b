"""Messages are found by key whatever happened to the index: full files, cuts, full disks, crashes, lost files."""

from __future__ import annotations

import pytest

from staticfire.harness.simulation.disk.disk import DiskOptions
from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.store.index import key_search
from staticfire.system_under_test.store.index.key_search import (
    EXACT_SEARCH,
    JAVA_SEARCH,
    KeyQuery,
    KeySearch,
    KeySearchRules,
)
from staticfire.system_under_test.store.results import PutStatus
from tests.support.disks import replace_folder
from tests.system_under_test.store.store_on_disk import (
    INDEX_FOLDER,
    START_MS,
    StoreOnDisk,
    make_message,
    search,
)

ROLLED_BACK = 0x0C


def put_keyed(world: StoreOnDisk, first: int, count: int) -> None:
    """Messages with two keys each: `unique-i` and `k-i`."""
    for number in range(first, first + count):
        message = make_message(b"%d" % number, UNIQ_KEY=f"unique-{number}", KEYS=f"k-{number}")
        world.put_visible(message)


def check_found(world: StoreOnDisk, count: int) -> None:
    for number in range(count):
        for key in (f"unique-{number}", f"k-{number}"):
            assert world.found(key) == [b"%d" % number], key
    assert world.found(f"k-{count}") == []


@pytest.fixture
def world() -> StoreOnDisk:
    """Small index files: nine entries each, so some messages have keys in two of them."""
    world = StoreOnDisk(log_file_size=4096, index_slots=3, index_numbers=10)
    world.open()
    return world


def test_files_follow_one_another(world: StoreOnDisk) -> None:
    put_keyed(world, 0, 30)
    check_found(world, 30)
    world.store.close()
    files = world.files(INDEX_FOLDER)
    assert len(files) == 7  # 60 entries
    assert sorted(files)[0] == "20231114221320000"
    world.open()
    check_found(world, 30)


def test_more_messages_wait_for_a_flush_than_have_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticfire.system_under_test.store.index.index_file._ALLOCATED_ENTRIES", 8)
    world = StoreOnDisk(log_file_size=1 << 20, index_slots=3, index_numbers=35)
    world.open()
    messages = [
        make_message(b"%d" % number, UNIQ_KEY=f"unique-{number}", KEYS=f"k-{number}")
        for number in range(40)
    ]
    world.put_visible(*messages)
    check_found(world, 40)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("queues_flushed", [False, True])
def test_an_unclean_end(world: StoreOnDisk, power: bool, queues_flushed: bool) -> None:
    put_keyed(world, 0, 13)
    if queues_flushed:
        world.flush_queues()
    put_keyed(world, 13, 12)
    world.cut_power() if power else world.kill()
    world.open()
    check_found(world, 25)
    put_keyed(world, 25, 5)
    check_found(world, 30)


@pytest.mark.parametrize("lost", range(4))
def test_a_removed_file(world: StoreOnDisk, lost: int) -> None:
    put_keyed(world, 0, 16)
    world.store.close()
    name = sorted(world.files(INDEX_FOLDER))[lost]
    world.disk.unlink(f"{INDEX_FOLDER}/{name}")
    world.open()
    check_found(world, 16)


def test_a_removed_file_before_which_no_message_has_a_key(world: StoreOnDisk) -> None:
    world.put_visible(make_message(b"without a key"))
    put_keyed(world, 0, 30)
    world.store.close()
    world.disk.unlink(f"{INDEX_FOLDER}/{min(world.files(INDEX_FOLDER))}")
    world.open()
    check_found(world, 30)


def test_a_removed_file_with_some_of_the_keys_of_the_first_message(world: StoreOnDisk) -> None:
    """What the next file has of this message looks like the begin of an index."""
    keys = [f"k-0-{number}" for number in range(12)]
    world.put_visible(make_message(b"0", UNIQ_KEY="unique-0", KEYS=" ".join(keys)))
    world.store.close()
    world.disk.unlink(f"{INDEX_FOLDER}/{min(world.files(INDEX_FOLDER))}")
    world.open()
    assert all(world.found(key) == [b"0"] for key in ("unique-0", *keys))


def test_a_file_that_a_cut_removed_does_not_come_back(world: StoreOnDisk) -> None:
    put_keyed(world, 0, 3)
    world.flush_queues()
    world.store.truncate(0)
    world.put_visible(make_message(b"no key"))
    world.store.close()
    world.cut_power()
    assert world.files(INDEX_FOLDER) == {}


@pytest.mark.parametrize("position", [0, 36, 44, 80, 200])
def test_a_damaged_file_after_a_crash(world: StoreOnDisk, position: int) -> None:
    put_keyed(world, 0, 8)
    world.flush_queues()
    world.kill()
    for name in sorted(world.files(INDEX_FOLDER)):
        world.write(f"{INDEX_FOLDER}/{name}", b"\xff" * 8, position)
    world.open()
    check_found(world, 8)


@pytest.mark.parametrize("count", [3, 9, 25, 60])  # of messages in the other store
@pytest.mark.parametrize("size", [0, 40])  # 0: records lie at the same places in both
def test_files_of_another_store_hide_nothing(world: StoreOnDisk, count: int, size: int) -> None:
    other = StoreOnDisk(log_file_size=4096, index_slots=3, index_numbers=10)
    other.open()
    for number in range(count):
        body = b"%d" % number + b"x" * size
        message = make_message(body, UNIQ_KEY=f"unique:{number}", KEYS=f"k:{number}")
        other.put_visible(message)
    other.store.close()
    put_keyed(world, 0, 25)
    world.store.close()
    replace_folder(other.disk, world.disk, INDEX_FOLDER)
    world.open()
    check_found(world, 25)
    assert world.found("k:1") == []
    put_keyed(world, 25, 5)
    check_found(world, 30)


def test_a_cut_goes_back_through_files(world: StoreOnDisk) -> None:
    put_keyed(world, 0, 5)
    offset = world.store.end_offset
    put_keyed(world, 5, 20)
    world.store.truncate(offset)
    check_found(world, 5)
    put_keyed(world, 5, 20)
    check_found(world, 25)
    world.store.close()
    world.open()
    check_found(world, 25)


def test_what_was_cut_is_never_found_again(world: StoreOnDisk) -> None:
    put_keyed(world, 0, 3)
    offset = world.store.end_offset
    world.put_visible(make_message(b"gone", KEYS="gone"))
    world.flush_queues()
    world.store.truncate(offset)
    world.put_visible(make_message(b"here", KEYS="here"))
    world.cut_power()
    world.open()
    assert (world.found("gone"), world.found("here")) == ([], [b"here"])


def test_no_space_for_an_index_file_refuses_the_send() -> None:
    """And nothing of it was stored."""
    world = StoreOnDisk(index_slots=100_000, options=DiskOptions(total_bytes=300_000))
    world.open()
    result = world.store.put(make_message(KEYS="k"))
    assert (result.status, world.store.end_offset) == (PutStatus.SERVICE_NOT_AVAILABLE, 0)
    world.put(make_message())  # without a key there is no need of it
    world.disk.fill(free_bytes=0)
    world.disk.free()


def test_a_message_that_was_rolled_back_is_not_indexed(world: StoreOnDisk) -> None:
    message = make_message(KEYS="k")
    message.sys_flag = ROLLED_BACK
    world.put_visible(message)
    assert world.files(INDEX_FOLDER) == {}
    world.kill()
    world.open()
    assert world.found("k") == []


def test_nothing_before_it_is_durable(world: StoreOnDisk) -> None:
    world.put(make_message(KEYS="k"))
    assert world.found("k") == []


def test_the_index_may_be_off_for_a_while(world: StoreOnDisk) -> None:
    put_keyed(world, 0, 3)
    world.store.close()
    on = world.config
    world.config = type(on)(root=on.root, commit_log_file_size=4096, consume_queue_file_size=100,
                            index_enabled=False)  # fmt: skip
    world.open()
    put_keyed(world, 3, 20)
    assert world.found("k-3") == []
    world.store.close()
    world.config = on
    world.open()
    check_found(world, 23)


def test_files_of_deleted_messages_go_with_them(world: StoreOnDisk) -> None:
    put_keyed(world, 0, 12)
    index = world.store._index
    assert len(index.files) == 3
    assert index.delete_before(index.files[1].header.end_offset) == 1
    assert index.delete_before(1 << 40) == 1, "the last one stays"
    assert world.found("k-11") == [b"11"]
    put_keyed(world, 12, 1)
    assert world.found("k-12") == [b"12"]


# Rules of the search


def find(
    world: StoreOnDisk, rules: KeySearchRules, key: str, begin: int, end: int, most: int = 9
) -> list[int]:
    """Physical offsets. Times are milliseconds after the start."""
    query = KeyQuery("TopicTest", key, most, START_MS + begin, START_MS + end)
    found = search(world, query, rules)
    return [int.from_bytes(record[28:36], "big") for record in found.records]


@pytest.fixture
def timed() -> StoreOnDisk:
    """`Aa` and `BB`, which have one hash, stored 0.9 s apart."""
    world = StoreOnDisk()
    world.open()
    for key in ("Aa", "BB", "Aa", "BB"):
        world.put_visible(make_message(KEYS=key))
        world.clock.now_ms += 900
    return world


def test_other_keys_of_the_same_hash(timed: StoreOnDisk) -> None:
    offsets = find(timed, JAVA_SEARCH, "Aa", 0, 9000)
    assert len(offsets) == 4, "the caller must compare keys"
    assert find(timed, EXACT_SEARCH, "Aa", 0, 9000) == offsets[0::2]
    assert find(timed, JAVA_SEARCH, "Aa", 0, 9000, most=1) == offsets[3:], "the wrong one"
    assert find(timed, EXACT_SEARCH, "Aa", 0, 9000, most=1) == offsets[2:3]


def test_times_within_a_second(timed: StoreOnDisk) -> None:
    """The index says that the second `Aa`, of 1,800 ms, was stored at 1,000 ms."""
    assert find(timed, JAVA_SEARCH, "Aa", 1800, 1800) == []
    assert len(find(timed, EXACT_SEARCH, "Aa", 1800, 1800)) == 1
    assert len(find(timed, JAVA_SEARCH, "Aa", 900, 1700)) == 1, "stored after that"
    assert find(timed, EXACT_SEARCH, "Aa", 900, 1700) == []


@pytest.mark.parametrize(
    ("begin", "end", "found", "read"),
    [
        (0, 0, 1, 2),  # `Aa` and `BB` of the second in which the file begins
        (1000, 1999, 1, 1),
        (500, 1000, 0, 3),  # the second in which it begins, and the next one
        (2000, 2699, 0, 1),
        (3000, 9000, 0, 0),
        (-9000, -1, 0, 2),  # stored before the file began: that has no seconds of its own
    ],
)
def test_records_of_another_time_are_not_read(
    timed: StoreOnDisk, begin: int, end: int, found: int, read: int
) -> None:
    """A query for the old messages of a hot key read all that were younger, while nothing else was served."""
    offsets: list[int] = []

    def look_up(offset: int) -> bytes | None:
        offsets.append(offset)
        return timed.store.look_up(offset)

    query = KeyQuery("TopicTest", "Aa", 9, START_MS + begin, START_MS + end)
    records = search(timed, query, EXACT_SEARCH, look_up).records
    assert (len(records), len(offsets)) == (found, read)


@pytest.mark.parametrize("clock_back_ms", [0, 5000])
def test_every_time_range_finds_what_was_stored_in_it(clock_back_ms: int) -> None:
    world = StoreOnDisk()
    world.open()
    for step_ms in (0, 1, 998, 1, 1, 999, -clock_back_ms, 5000, 2**31):
        world.clock.now_ms += step_ms
        world.put_visible(make_message(KEYS="k"))
    query = KeyQuery("TopicTest", "k", 9, 0, 1 << 62)
    records = search(world, query, EXACT_SEARCH).records
    times = [decode_record(record).store_timestamp_ms - START_MS for record in records]
    assert len(times) == 9
    for begin in times:
        for end in times:
            wanted = sum(begin <= at <= end for at in times)
            assert len(find(world, EXACT_SEARCH, "k", begin, end)) == wanted, (begin, end)


@pytest.mark.parametrize("rules", [EXACT_SEARCH, JAVA_SEARCH])
@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_of_nothing(timed: StoreOnDisk, rules: KeySearchRules, most: int) -> None:
    assert find(timed, rules, "Aa", 0, 9000, most=most) == []


def test_the_answer_tells_how_far_the_index_reaches(timed: StoreOnDisk) -> None:
    query = KeyQuery("TopicTest", "none", 1, 0, 1)
    found = timed.store.find_by_key(query)
    assert found.records == []
    assert found.last_update_ms == START_MS + 2700
    assert found.last_update_offset > 0


HOT = KeyQuery("TopicTest", "hot", 64, 0, START_MS - 1)


def hot_key(count: int) -> StoreOnDisk:
    world = StoreOnDisk()
    world.open()
    for _ in range(count):
        world.clock.now_ms += 2000
        world.put_visible(make_message(KEYS="hot"))
    return world


@pytest.mark.parametrize("rules", [EXACT_SEARCH, JAVA_SEARCH])
def test_a_search_in_steps_finds_what_one_step_finds(rules: KeySearchRules) -> None:
    world = hot_key(40)
    query = HOT._replace(max_messages=9, end_ms=START_MS + 60_000)
    searching = KeySearch(world.store._index, query, rules, world.store.look_up)
    steps = 1
    while not searching.step(4):
        steps += 1
    assert steps >= 5  # ten entries that are too young, and nine records
    assert searching.found == search(world, query, rules)
    assert len(searching.found.records) == 9


def test_entries_that_match_nothing_count_as_work() -> None:
    """A query for a time long ago walked the whole chain of a hot key, while nothing else was served."""
    searching = hot_key(40).store.key_search(HOT)
    assert [searching.step(10) for _ in range(5)] == [False] * 4 + [True]
    assert searching.found.records == []


def test_a_search_begins_anew_when_entries_were_removed() -> None:
    world = hot_key(40)
    searching = world.store.key_search(HOT._replace(end_ms=1 << 62))
    assert not searching.step(10)
    cut_at = int.from_bytes(world.store.find_by_key(HOT._replace(end_ms=1 << 62)).records[5][28:36])
    world.store._index.cut(cut_at, lambda _: START_MS)
    assert searching.step()
    assert len(searching.found.records) == 5


def test_a_large_record_counts_for_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_search, "BYTES_A_UNIT", 25)
    world = StoreOnDisk()
    world.open()
    for _ in range(3):
        world.put_visible(make_message(bytes(500), KEYS="hot"))
    searching = world.store.key_search(HOT._replace(end_ms=1 << 62))
    assert [searching.step(20) for _ in range(4)] == [False, False, False, True]
