"""A record that a disk has changed, in a master and its slave: mended where there is a sound copy, else passed over."""

from __future__ import annotations

import asyncio

from staticfire.faults.linux.on_node.bit_rot import stored_records
from staticfire.harness.simulation.hosts.host import Host
from staticfire.system_under_test.broker.replication.record_repair import ANSWER_AFTER_S
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import decode_records
from tests.system_under_test.broker.bench import pull_ext
from tests.system_under_test.broker.simulated_brokers import (
    LOG_FILE,
    MASTER,
    OK,
    SLAVE,
    Client,
    Cluster,
    on_cluster,
)

DAMAGED = 7
COUNT = 20
KEYS = [f"k{number}" for number in range(COUNT)]


def rot(host: Host, key: str = KEYS[DAMAGED]) -> int:
    """Change a bit in the body of the message with this key; return its physical offset."""
    log = host.disk.read_cached(LOG_FILE)
    needle = b"KEYS\x01" + key.encode() + b"\x02"
    at = log.find(needle) if needle in log else log.find(needle[:-1])
    record = max((r for r in stored_records(log) if r.start < at), key=lambda r: r.start)
    host.disk.flip_bit(LOG_FILE, within=(record.body_start, record.body_end))
    return record.start


async def readable(client: Client, host: str) -> list[str]:
    """Those of KEYS that reach a consumer which follows every offset correction of the broker."""
    found: list[str] = []
    offset, code = 0, 0
    while code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
        answer = await client.ask(host, 11, pull_ext("TopicTest", offset=offset, queue_id=0))
        code, offset = answer.code, int(answer.ext_fields["nextBeginOffset"])
        found += [message.properties["KEYS"] for message in decode_records(answer.body)]
    return [key for key in found if key in KEYS]


async def filled(cluster: Cluster, client: Client) -> None:
    await client.send_until(OK, within_s=5)
    assert [await client.send(key) for key in KEYS] == [OK] * COUNT
    await asyncio.sleep(1)


@on_cluster()
async def test_a_killed_master_keeps_what_follows_a_damaged_record_and_mends_it(
    cluster: Cluster, client: Client
) -> None:
    master = cluster.start_master()
    cluster.start_slave()
    await filled(cluster, client)
    rot(cluster.master)
    master.kill()
    cluster.start_master()
    await client.send_until(OK, within_s=5)
    assert await readable(client, MASTER) == KEYS
    assert cluster.log(cluster.master) == cluster.log(cluster.slave)


@on_cluster()
async def test_without_a_sound_copy_consumers_pass_the_message_over(
    cluster: Cluster, client: Client
) -> None:
    master, slave = cluster.start_master(), cluster.start_slave()
    await filled(cluster, client)
    for process in (master, slave):
        process.kill()
    for host in (cluster.master, cluster.slave):
        rot(host)
    cluster.start_slave()
    cluster.start_master()
    await client.send_until(OK, within_s=5)
    await readable(client, MASTER)
    await asyncio.sleep(ANSWER_AFTER_S + 0.5)  # each has asked the other one, once
    rest = [key for key in KEYS if key != KEYS[DAMAGED]]
    assert await readable(client, MASTER) == rest


@on_cluster()
async def test_a_new_slave_goes_on_behind_what_its_master_has_damaged(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_master()
    slave = cluster.start_slave()
    await filled(cluster, client)
    slave.kill()
    rot(cluster.master)
    cluster.slave.disk.wipe()
    cluster.start_slave()
    await client.send_until(OK, within_s=8)
    assert cluster.log(cluster.master) == cluster.log(cluster.slave)
    rest = [key for key in KEYS if key != KEYS[DAMAGED]]
    await asyncio.sleep(4)
    await readable(client, SLAVE)
    await asyncio.sleep(4)
    assert await readable(client, SLAVE) == rest


@on_cluster()
async def test_a_master_that_cut_its_log_at_a_damaged_record_fetches_what_its_slave_has(
    cluster: Cluster, client: Client
) -> None:
    """The power cut leaves no queue entry that proves what was durable."""
    cluster.start_master()
    cluster.start_slave()
    await filled(cluster, client)
    before = cluster.log(cluster.slave)
    cluster.master.power_cut()
    rot(cluster.master)
    cluster.master.power_on()
    cluster.start_master()
    await client.send_until(OK, within_s=8)
    assert await readable(client, MASTER) == KEYS
    assert cluster.log(cluster.master).startswith(before.rstrip(b"\0"))


@on_cluster()
async def test_a_replica_that_lost_power_meanwhile_mends_at_the_first_question(
    cluster: Cluster, client: Client
) -> None:
    """The connection to its former life is still there, and no answer comes over it."""
    cluster.start_master()
    cluster.start_slave()
    await filled(cluster, client)
    rot(cluster.master)
    await readable(client, MASTER)
    await asyncio.sleep(1)
    assert await readable(client, MASTER) == KEYS
    cluster.slave.power_cut()
    cluster.slave.power_on()
    cluster.start_slave()
    await client.send_until(OK, within_s=8)
    at = rot(cluster.master, KEYS[3])
    answer = await client.ask(MASTER, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(at)})
    assert answer.code == ResponseCode.SUCCESS
