"""What of files is left after a kill and after a power cut, in both worlds.

POSIX promises less than any file system gives. So each test says what is allowed, and what must be able to happen: a
real file system shows one outcome of those, the simulation all of them in turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.world import Play, Remote, World, sizes


async def reboot(world: World) -> Remote:
    await world.server.power_cut()
    await world.server.power_on()
    return await world.server.start()


async def durable_file(node: Remote, folder: str, name: str, letter: str, size: int) -> None:
    """A file that no power cut can take, open under its name."""
    await node.ask("open", name, f"{folder}/{name}")
    await node.ask("fill", name, letter, size)
    await node.ask("fsync", name)
    await node.ask("fsync_dir", folder)


def test_the_page_cache_survives_a_kill(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await node.ask("fill", "f", "a", 10_000)
        await world.server.kill()
        node = await world.server.start()
        return await node.ask("read", f"{folder}/f")

    assert set(play_with_disk(scenario)) == {"a*10000"}


async def take(node: Remote, folder: str, step: str) -> None:
    """A command of the node with files of the folder, whose handles have their names; "durable": `durable_file`."""
    command, *words = step.split()
    arguments: list[Any] = [int(word) if word.isdigit() else word for word in words]
    paths = [f"{folder}/{word}" for word in words]
    if command == "durable":
        await durable_file(node, folder, *arguments)
    elif command == "open":
        await node.ask("open", *words, *paths)
    elif command in ("rename", "unlink"):
        await node.ask(command, *paths)
    else:
        await node.ask(command, *(arguments or [folder]))


@pytest.mark.parametrize(
    ("steps", "must_be", "may_be"),
    [
        ("durable f a 10000", {"a*10000"}, set()),
        ("durable f a 10000; fill f b 5000 10000; fdatasync f", {"a*10000 b*5000"}, set()),
        # fsync of a file says nothing of its name: ext4 and XFS keep it as well, POSIX does not require it.
        ("open f; fill f a 10; fsync f", {"a*10"}, {None}),
        # fsync of a folder says nothing of the content.
        ("open f; fill f a 10; fsync_dir", {""}, {"0*10", "a*10"}),
        ("open f", {None}, {""}),
        # A rename of what was not synced: ext4 writes the content first (auto_da_alloc), XFS does not.
        (
            "durable f o 10; open new; fill new n 10; rename new f; fsync_dir",
            set(),
            {"", "0*10", "n*10"},
        ),
        ("durable f a 10; unlink f", {"a*10"}, {None}),
        ("durable f a 10; unlink f; fsync_dir", {None}, set()),
        ("durable f a 10000; truncate f 100", {"a*10000"}, {"a*100"}),
        (
            "durable f a 10000; truncate f 100; fsync f; truncate f 0; truncate f 200; fsync f",
            {"0*200"},
            set(),
        ),
    ],
)
def test_what_a_power_cut_leaves_of_a_file(
    play_with_disk: Play, steps: str, must_be: set[str | None], may_be: set[str | None]
) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        for step in steps.split("; "):
            await take(node, folder, step)
        node = await reboot(world)
        return await node.ask("read", f"{folder}/f")

    outcomes = set(play_with_disk(scenario))
    assert must_be <= outcomes <= must_be | may_be


def test_unsynced_appends_may_be_lost(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await durable_file(node, folder, "f", "a", 4096)
        await node.ask("fill", "f", "b", 4096, 4096)
        await node.ask("fill", "f", "b", 4096, 8192)
        node = await reboot(world)
        return await node.ask("read", f"{folder}/f")

    outcomes = play_with_disk(scenario)
    assert "a*4096" in outcomes
    for outcome in outcomes:
        found = sizes(outcome)
        assert (outcome.split()[0], found.pop("a")) == ("a*4096", 4096)
        assert set(found) <= {"0", "b"}
        assert sum(found.values()) <= 8192


def test_an_unsynced_overwrite_may_be_lost(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await durable_file(node, folder, "f", "a", 4096)
        await node.ask("fill", "f", "b", 4096)
        node = await reboot(world)
        return await node.ask("read", f"{folder}/f")

    outcomes = play_with_disk(scenario)
    assert "a*4096" in outcomes
    for outcome in outcomes:
        found = sizes(outcome)
        assert sum(found.values()) == 4096
        assert set(found) <= {"a", "b"}


def test_space_that_was_allocated_is_kept_with_what_was_written(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await node.ask("open", "f", f"{folder}/f")
        await node.ask("allocate", "f", 16_384)
        await node.ask("fill", "f", "a", 4096)
        await node.ask("fdatasync", "f")
        await node.ask("fsync_dir", folder)
        await node.ask("fill", "f", "b", 4096, 8192)
        node = await reboot(world)
        return await node.ask("read", f"{folder}/f")

    outcomes = play_with_disk(scenario)
    assert "a*4096 0*12288" in outcomes
    for outcome in outcomes:
        found = sizes(outcome)
        assert outcome.startswith("a*4096 0*")
        assert (sum(found.values()), found["a"]) == (16_384, 4096)
        assert found.get("b", 0) <= 4096


def test_a_file_in_a_new_folder(play_with_disk: Play) -> None:
    """Each name wants an fsync of the folder that holds it."""

    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        for new in ("kept", "left"):
            await node.ask("makedirs", f"{folder}/{new}")
        await node.ask("fsync_dir", folder)
        await durable_file(node, f"{folder}/kept", "f", "a", 10)
        await node.ask("open", "g", f"{folder}/left/g")
        node = await reboot(world)
        return (await node.ask("read", f"{folder}/kept/f"), *await node.ask("names", folder))

    assert set(play_with_disk(scenario)) == {("a*10", "kept", "left")}


def test_a_rename_is_one_step(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await durable_file(node, folder, "old", "o", 10)
        await durable_file(node, folder, "new", "n", 10)
        await node.ask("rename", f"{folder}/new", f"{folder}/old")
        node = await reboot(world)
        return (await node.ask("read", f"{folder}/old"), await node.ask("read", f"{folder}/new"))

    outcomes = set(play_with_disk(scenario))
    assert ("o*10", "n*10") in outcomes
    assert outcomes <= {("o*10", "n*10"), ("n*10", None)}


def test_a_rename_is_durable_with_its_folder(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        await durable_file(node, folder, "old", "o", 10)
        await durable_file(node, folder, "new", "n", 10)
        await node.ask("rename", f"{folder}/new", f"{folder}/old")
        await node.ask("fsync_dir", folder)
        node = await reboot(world)
        return (await node.ask("read", f"{folder}/old"), await node.ask("read", f"{folder}/new"))

    assert set(play_with_disk(scenario)) == {("n*10", None)}


def test_a_lock_ends_with_its_process(play_with_disk: Play) -> None:
    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        for handle in ("one", "two"):
            await node.ask("open", handle, f"{folder}/lock")
        found = [await node.ask("lock", "one"), await node.ask("lock", "two")]
        await world.server.kill()
        node = await world.server.start()
        await node.ask("open", "three", f"{folder}/lock")
        return (*found, await node.ask("lock", "three"))

    assert set(play_with_disk(scenario)) == {(True, False, True)}


def test_a_removed_file_takes_space_as_long_as_a_process_has_it_open(play_with_disk: Play) -> None:
    size = 4 << 20

    async def scenario(world: World) -> object:
        folder, node = world.server.folder, await world.server.start()
        before = await node.ask("free_bytes", folder)
        await node.ask("open", "f", f"{folder}/f")
        await node.ask("fill", "f", "a", size)
        await node.ask("fsync", "f")
        await node.ask("unlink", f"{folder}/f")
        during = await node.ask("free_bytes", folder)
        await world.server.kill()
        node = await world.server.start()
        after = await node.ask("free_bytes", folder)
        for _ in range(50):  # XFS gives it back a moment later
            if before - after < size // 4:
                break
            await world.sleep(0.02)
            after = await node.ask("free_bytes", folder)
        return (before - during >= size, before - after < size // 4)

    assert set(play_with_disk(scenario)) == {(True, True)}
