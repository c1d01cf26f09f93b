"""What comes in the middle of an fsync, on a disk that is slow, in both worlds: a power cut, an error, a stall."""

from __future__ import annotations

from tests.parity.test_power import durable_file, reboot
from tests.parity.world import Play, Remote, World, sizes

BLOCK = 4096
BLOCKS = 64
FILE_SIZE = BLOCKS * BLOCK
STAMPED = list(range(0, FILE_SIZE, 2 * BLOCK))  # every other block: each is a request of its own
STAMPED_SIZE = len(STAMPED) * BLOCK
IN_BETWEEN_S = 0.7
STALLED_S = 8.0  # longer than the slow fsync takes: 3 s in the simulation, 4 s on the real disk


async def slow_fsync(world: World, node: Remote) -> None:
    """An fsync of many blocks of b, in a durable file of a, is under way."""
    folder = world.server.folder
    await durable_file(node, folder, "f", "a", FILE_SIZE)
    await world.server.slow_disk()
    await node.ask("stamp", "f", "b", BLOCK, STAMPED)
    await node.ask("begin_fsync", "f")
    await world.sleep(IN_BETWEEN_S)


def test_a_power_cut_in_an_fsync_leaves_any_part_of_it(play_with_slow_disk: Play) -> None:
    async def scenario(world: World) -> tuple[list[str], str]:
        node = await world.server.start()
        await slow_fsync(world, node)
        reported = node.story("f")
        node = await reboot(world)
        return reported, await node.ask("read", f"{world.server.folder}/f")

    outcomes = play_with_slow_disk(scenario)
    for reported, content in outcomes:
        found = sizes(content)
        assert reported == []  # it had not returned
        assert sum(found.values()) == FILE_SIZE
        assert set(found) <= {"a", "b"}
        assert found["a"] >= FILE_SIZE - STAMPED_SIZE  # what was durable before
    if len(outcomes) > 1:
        written = {sizes(content).get("b", 0) for _, content in outcomes}
        assert {0, STAMPED_SIZE} < written
        assert len(written) > 3


def test_a_power_cut_behind_an_fsync_takes_nothing_of_it(play_with_slow_disk: Play) -> None:
    async def scenario(world: World) -> str:
        node = await world.server.start()
        await slow_fsync(world, node)
        await node.until("f", "synced")
        node = await reboot(world)
        content: str = await node.ask("read", f"{world.server.folder}/f")
        return content

    half = " ".join([f"b*{BLOCK} a*{BLOCK}"] * len(STAMPED))
    assert set(play_with_slow_disk(scenario)) == {half}


def test_what_is_written_during_an_fsync_is_not_covered_by_it(play_with_slow_disk: Play) -> None:
    """The last block of the file is written when the fsync is under way, and may be lost although that has returned."""

    async def scenario(world: World) -> tuple[int, str]:
        node = await world.server.start()
        await slow_fsync(world, node)
        await node.ask("fill", "f", "c", BLOCK, FILE_SIZE - BLOCK)
        await node.until("f", "synced")
        node = await reboot(world)
        content: str = await node.ask("read", f"{world.server.folder}/f")
        return sizes(content)["b"], content.split()[-1]

    outcomes = play_with_slow_disk(scenario)
    for kept, end in outcomes:
        assert kept == STAMPED_SIZE
        assert end.partition("*")[0] in ("a", "c")
    assert {end.partition("*")[0] for _, end in outcomes} >= (
        {"a", "c"} if len(outcomes) > 1 else set()
    )


def test_an_error_in_an_fsync_ends_it_with_a_part_of_what_it_covers(
    play_with_slow_disk: Play,
) -> None:
    """The real disk has no place for the blocks that are left, and says ENOSPC where the simulated one says EIO."""

    async def scenario(world: World) -> tuple[list[str], list[str | None], str | None, str]:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await node.ask("allocate", "f", FILE_SIZE)  # reserved, and never written: new blocks
        await node.ask("fsync", "f")
        await node.ask("fsync_dir", folder)
        await world.server.slow_disk()
        # from the last block on: behind writes from its beginning a real file has zeros written, too
        await node.ask("stamp", "f", "b", BLOCK, STAMPED[::-1])
        await node.ask("begin_fsync", "f")
        await world.sleep(IN_BETWEEN_S)
        await world.server.fail_in_flight()
        before = node.story("f")
        await node.until("f", "synced")
        after = node.errors("f")
        await world.server.end_slowness()
        await world.server.mend_disk()
        again = await node.fails("fsync", "f")
        node = await reboot(world)
        return before, after, again, await node.ask("read", f"{folder}/f")

    outcomes = play_with_slow_disk(scenario)
    for before, after, again, content in outcomes:
        assert before == []
        assert after in (["EIO"], ["ENOSPC"])
        assert again is None  # reported once; what is lost stays lost
        found = sizes(content)
        assert sum(found.values()) == FILE_SIZE
        assert found.get("b", 0) < STAMPED_SIZE
        assert set(found) <= {"0", "b"}
    if len(outcomes) > 1:
        assert len({sizes(content).get("b", 0) for *_, content in outcomes}) > 3


def test_a_stall_holds_an_fsync_until_it_ends(play_with_slow_disk: Play) -> None:
    """Without it the fsync takes 4 s on the real disk."""

    async def scenario(world: World) -> tuple[list[str], list[str | None], str]:
        node = await world.server.start()
        await slow_fsync(world, node)
        await world.server.stall_disk()
        await world.sleep(STALLED_S)
        held = node.story("f")
        await world.server.end_slowness()
        await node.until("f", "synced")
        node_errors = node.errors("f")
        node = await reboot(world)
        return held, node_errors, await node.ask("read", f"{world.server.folder}/f")

    for held, errors, content in play_with_slow_disk(scenario):
        assert held == []
        assert errors == [None]
        assert sizes(content)["b"] == STAMPED_SIZE
