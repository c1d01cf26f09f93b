"""Bytes of the files of a killed store may be wrong: it is refused with one sentence or recovered, and serves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.results import PutStatus
from tests.system_under_test.store.store_on_disk import StoreOnDisk, make_message

FILES = (
    "abort",
    "checkpoint",
    "lock",
    "commitlog/00000000000000000000",
    "commitlog/00000000000000001024",
    "consumequeue/TopicTest/0/00000000000000000000",
    "consumequeue/TopicTest/0/00000000000000000100",
    "consumequeue/TopicTest/1/00000000000000000000",
    "index",
)
MESSAGES = 9


def killed_store() -> StoreOnDisk:
    world = StoreOnDisk()
    world.open()
    for number in range(MESSAGES):
        world.put_visible(
            make_message(b"m%d" % number, queue_id=number % 3 // 2, KEYS=f"k{number}")
        )
    world.flush_queues()
    world.kill()
    return world


def damage(world: StoreOnDisk, name: str, at: int, value: bytes, *, cut: bool) -> None:
    path = f"/store/{name}"
    if name == "index":
        path += f"/{sorted(world.disk.listdir(path))[0]}"
    file = world.disk.open(path, create=True)
    position = at % max(1, file.size())
    if cut:
        file.truncate(position)
    else:
        file.pwrite(value, position)
    file.close()


def open_error(world: StoreOnDisk) -> str | None:
    try:
        world.open()
    except StoreError as error:
        return str(error)
    return None


damages = st.tuples(
    st.sampled_from(FILES),
    st.integers(0, 5000),
    st.binary(min_size=1, max_size=30),
    st.booleans(),
)


@settings(max_examples=150)
@given(st.lists(damages, min_size=1, max_size=3))
def test_a_damaged_store_is_refused_or_recovered(done: list[tuple[str, int, bytes, bool]]) -> None:
    world = killed_store()
    for name, at, value, cut in done:
        damage(world, name, at, value, cut=cut)
    refusal = open_error(world)
    if refusal is not None:
        assert refusal
        assert "\n" not in refusal
        return
    for topic, queue_id in world.store.queue_view.list_keys():
        low, high = world.store.queue_bounds(topic, queue_id)
        found = world.store.get(topic, queue_id, low, MESSAGES)
        assert (
            len(found.records) <= high - low
        )  # topic and properties have no checksum: not decoded
    assert world.store.put(make_message(b"more")).status is PutStatus.PUT_OK
    world.flush()
    assert world.store.dispatch()
