"""Errors that a process gets from a full or failing disk, in both worlds."""

from __future__ import annotations

from tests.parity.world import Play, Remote, World, sizes

ROOM = 1 << 20
MUCH = 3 << 20


def test_a_write_on_a_full_disk_leaves_a_part(play_with_disk: Play) -> None:
    async def scenario(world: World) -> tuple[str | None, dict[str, int]]:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await world.server.fill_disk(ROOM)
        error = await node.fails("fill", "f", "a", MUCH)
        return error, sizes(await node.ask("read", f"{folder}/f"))

    outcomes = play_with_disk(scenario)
    for error, content in outcomes:
        assert error == "ENOSPC"
        assert set(content) <= {"a"}
        assert content.get("a", 0) <= ROOM
    if len(outcomes) > 1:
        assert {0, ROOM} < {content.get("a", 0) for _, content in outcomes}


def test_a_disk_with_space_again_goes_on(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await world.server.fill_disk(0)
        full = await node.fails("fill", "f", "a", MUCH)
        await world.server.free_disk()
        await node.ask("fill", "f", "a", MUCH)
        await node.ask("fsync", "f")
        return full, await node.ask("read", f"{folder}/f")

    assert set(play_with_disk(scenario)) == {("ENOSPC", f"a*{MUCH}")}


def test_what_has_its_blocks_can_be_written_on_a_full_disk(play_with_disk: Play) -> None:
    """Overwritten, or allocated before: neither needs space."""

    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        for name in ("written", "allocated"):
            await node.ask("open", name, f"{folder}/{name}")
        await node.ask("fill", "written", "a", 40_960)
        await node.ask("fsync", "written")
        await node.ask("allocate", "allocated", 40_960)
        await node.ask("fsync", "allocated")
        await world.server.fill_disk(0)
        reported = [
            await node.fails("fill", name, "b", 40_960) for name in ("written", "allocated")
        ]
        reported += [await node.fails("fsync", name) for name in ("written", "allocated")]
        names = [f"{folder}/{name}" for name in ("written", "allocated")]
        return (*reported, *[await node.ask("read", name) for name in names])

    assert set(play_with_disk(scenario)) == {(None, None, None, None, "b*40960", "b*40960")}


def test_an_allocation_that_does_not_fit_is_refused(play_with_disk: Play) -> None:
    """What is left of it differs: the space may be taken, the file may have grown."""

    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await node.ask("fill", "f", "a", 4096)
        await node.ask("fsync", "f")
        await world.server.fill_disk(ROOM)
        error = await node.fails("allocate", "f", MUCH)
        size = await node.ask("size", "f")
        taken = ROOM - await node.ask("free_bytes", folder)
        await node.ask("truncate", "f", 4096)  # gives back what there is
        left = await node.ask("free_bytes", folder)
        content = await node.ask("read", f"{folder}/f")
        return error, size, taken, left, content

    outcomes = play_with_disk(scenario)
    for error, size, taken, left, content in outcomes:
        assert error == "ENOSPC"
        assert size == 4096 + taken
        assert taken == 0 or taken > ROOM // 2
        assert left > ROOM // 2
        assert content == "a*4096"
    if len(outcomes) > 1:
        assert len({size for _, size, *_ in outcomes}) == 2


async def failed_sync(world: World, node: Remote) -> None:
    """Two handles, "f" and "g", of a durable file of a; then b over it, whose fsync by "f" fails."""
    folder = world.server.folder
    await node.ask("open", "f", f"{folder}/f")
    await node.ask("open", "g", f"{folder}/f")
    await node.ask("fill", "f", "a", 4096)
    await node.ask("fsync", "f")
    await node.ask("fsync_dir", folder)
    await world.server.fail_fsync()
    await node.ask("fill", "f", "b", 4096)
    assert await node.fails("fsync", "f") == "EIO"


def test_a_failed_fsync_is_reported_once(play_with_failing_disk: Play) -> None:
    """The next one succeeds, although nothing was written (PostgreSQL's "fsyncgate")."""

    async def scenario(world: World) -> object:
        node = await world.server.start()
        await failed_sync(world, node)
        return (await node.fails("fsync", "f"), await node.fails("fdatasync", "f"))

    assert set(play_with_failing_disk(scenario)) == {(None, None)}


def test_a_failed_fsync_is_reported_to_every_process_with_the_file_open(
    play_with_failing_disk: Play,
) -> None:
    """Once for each open file; who opens it afterwards hears nothing (Linux 4.13 and later: errseq_t)."""

    async def scenario(world: World) -> object:
        node = await world.server.start()
        await failed_sync(world, node)
        await world.server.mend_disk()
        await node.ask("open", "later", f"{world.server.folder}/f")
        reported = [await node.fails("fsync", "later")]
        reported += [await node.fails("fsync", "g") for _ in range(2)]
        return tuple(reported)

    assert set(play_with_failing_disk(scenario)) == {(None, "EIO", None)}


def test_a_failed_fsync_of_one_file_is_nothing_to_another(play_with_failing_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "other", f"{folder}/other")
        await failed_sync(world, node)
        await world.server.mend_disk()
        await node.ask("fill", "other", "c", 10)
        return await node.fails("fsync", "other"), await node.ask("read", f"{folder}/other")

    assert set(play_with_failing_disk(scenario)) == {(None, "c*10")}


def test_the_cache_after_a_failed_fsync_is_no_evidence(play_with_failing_disk: Play) -> None:
    """It may show what is not on the disk, and fsync has nothing more to say about it."""

    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await failed_sync(world, node)
        await world.server.mend_disk()
        shown = await node.ask("read", f"{folder}/f")
        assert await node.fails("fsync", "f") is None
        await world.server.power_cut()
        await world.server.power_on()
        node = await world.server.start()
        return (shown, await node.ask("read", f"{folder}/f"))

    outcomes = set(play_with_failing_disk(scenario))
    assert ("b*4096", "a*4096") in outcomes
    assert outcomes <= {("b*4096", "a*4096"), ("a*4096", "a*4096")}


def test_new_blocks_whose_fsync_failed_may_swallow_what_is_written_again(
    play_with_failing_disk: Play,
) -> None:
    """ext4 takes the page in the cache for one that the disk has, and leaves its blocks unwritten."""

    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await node.ask("fill", "f", "a", 4096)
        await node.ask("fsync", "f")
        await node.ask("fsync_dir", folder)
        await world.server.fail_fsync()
        await node.ask("fill", "f", "b", 4096, 4096)
        assert await node.fails("fsync", "f") == "EIO"
        await world.server.mend_disk()
        await node.ask("fill", "f", "c", 4096, 4096)
        assert await node.fails("fsync", "f") is None
        shown = await node.ask("read", f"{folder}/f")
        await world.server.power_cut()
        await world.server.power_on()
        node = await world.server.start()
        return (shown, await node.ask("read", f"{folder}/f"))

    outcomes = set(play_with_failing_disk(scenario))
    assert ("a*4096 c*4096", "a*4096 0*4096") in outcomes
    assert outcomes <= {("a*4096 c*4096", f"a*4096 {letter}*4096") for letter in "0c"}


def test_overwritten_blocks_whose_fsync_failed_can_be_written_again(
    play_with_failing_disk: Play,
) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await failed_sync(world, node)
        await world.server.mend_disk()
        await node.ask("fill", "f", "c", 4096)
        await node.ask("fsync", "f")
        await world.server.power_cut()
        await world.server.power_on()
        node = await world.server.start()
        return await node.ask("read", f"{folder}/f")

    assert set(play_with_failing_disk(scenario)) == {"c*4096"}
