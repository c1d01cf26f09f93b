"""Rules of our own table: rendered whole, counted by name, and true in real namespaces."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import (
    BLACK_HOLE_IN,
    Firewall,
    Spared,
    counted,
    ruleset,
)
from staticfire.faults.linux.network.network import Network
from tests.support.reachability import hears_nothing, reaches
from tests.support.recording_executor import recording_machine


def test_a_black_hole_spares_the_control_port_of_the_machine() -> None:
    """And nothing else from there: it may be a proxy's machine, too."""
    spared = Spared(address="198.18.0.1", port=22)
    lines = ruleset([], black_hole=True, spared=spared).splitlines()
    assert "add rule inet staticfire input ip saddr 198.18.0.1 tcp dport 22 accept" in lines
    assert "add rule inet staticfire output ip daddr 198.18.0.1 tcp sport 22 accept" in lines


def test_rules_of_every_kind() -> None:
    text = ruleset(["198.18.0.2", "fd00::2"], black_hole=True)
    chain = "type filter hook {} priority -10; policy accept;"
    assert text.splitlines() == [
        "add table inet staticfire",
        "add counter inet staticfire from_198_18_0_2",
        "add counter inet staticfire from_fd00__2",
        "add counter inet staticfire black_hole_in",
        "add counter inet staticfire black_hole_out",
        f"add chain inet staticfire input {{ {chain.format('input')} }}",
        "flush chain inet staticfire input",
        f"add chain inet staticfire output {{ {chain.format('output')} }}",
        "flush chain inet staticfire output",
        "add rule inet staticfire input ip saddr 198.18.0.2 counter name from_198_18_0_2 drop",
        "add rule inet staticfire input ip6 saddr fd00::2 counter name from_fd00__2 drop",
        'add rule inet staticfire input iifname != "lo" counter name black_hole_in drop',
        'add rule inet staticfire output oifname != "lo" counter name black_hole_out drop',
    ]


def test_the_first_load_removes_leftovers() -> None:
    lines = ruleset([], black_hole=False, anew=True).splitlines()
    assert lines[:3] == [
        "add table inet staticfire",
        "delete table inet staticfire",
        "add table inet staticfire",
    ]


def test_an_address_is_checked_before_anything_is_loaded() -> None:
    with pytest.raises(ValueError, match="flush ruleset"):
        ruleset(["1.2.3.4; flush ruleset"], black_hole=False)


def test_counters_are_read_by_name() -> None:
    listing = """{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"counter": {"family": "inet",
        "name": "black_hole_in", "table": "staticfire", "handle": 1, "packets": 7, "bytes": 420}}]}"""
    assert counted(listing) == {BLACK_HOLE_IN: 7}


def test_two_faults_may_drop_the_same(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path, prefix=("nsenter", "--"))

    async def twice() -> None:
        firewall = Firewall(machine)
        await firewall.drop_from("198.18.0.2")
        await firewall.drop_from("198.18.0.2")
        await firewall.restore_from("198.18.0.2")
        assert "saddr" in executor.inputs[-1]
        await firewall.restore_from("198.18.0.2")
        assert "saddr" not in executor.inputs[-1]
        before = len(executor.commands)
        await firewall.restore_from("198.18.0.2")
        await firewall.end_black_hole()
        assert len(executor.commands) == before

    asyncio.run(twice())
    assert {tuple(argv) for argv in executor.commands} == {("nsenter", "--", "nft", "-f", "-")}
    assert [str(made) for made in machine.inventory.made] == ["nft table inet staticfire"]
    machine.inventory.close()


def test_nothing_is_healed_where_nothing_was_dropped(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    asyncio.run(Firewall(machine).heal())
    assert asyncio.run(Firewall(machine).dropped_from("198.18.0.2")) == 0
    assert executor.commands == []
    machine.inventory.close()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("nft", "ip")
def test_drops_between_real_namespaces(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        network = Network(machine)
        try:
            await network.create()
            one, two = await network.add("one"), await network.add("two")
            await drops(
                machine.behind(one.prefix), one.address, machine.behind(two.prefix), two.address
            )
            await black_hole(machine, machine.behind(two.prefix), two.address)
        finally:
            await network.remove()

    asyncio.run(asyncio.wait_for(scenario(), 180))


async def drops(one: LinuxMachine, one_address: str, two: LinuxMachine, two_address: str) -> None:
    firewall = Firewall(two)
    assert await reaches(one, two_address)
    await firewall.drop_from(one_address)
    assert await hears_nothing(one, two_address)
    seen = await firewall.dropped_from(one_address)
    assert seen > 0
    await firewall.restore_from(one_address)
    assert await firewall.dropped_from(one_address) == seen  # the counter outlives the rule
    assert await reaches(one, two_address)
    await firewall.heal()
    assert "staticfire" not in await two.run(["nft", "list", "tables"])


async def black_hole(host: LinuxMachine, node: LinuxMachine, address: str) -> None:
    await node.run(["nft", "add", "table", "inet", "other"])
    firewall = Firewall(node)
    await firewall.black_hole()
    assert await hears_nothing(host, address)
    assert await reaches(node, address)  # within the machine
    assert await firewall.dropped_in_black_hole() > 0
    await firewall.heal()
    assert await reaches(host, address)
    assert await node.run(["nft", "list", "tables"]) == "table inet other\n"
