"""The end of a broker on a disk that takes nothing any more."""

from __future__ import annotations

from tests.system_under_test.broker.simulated_brokers import OK, Client, Cluster, on_cluster


@on_cluster()
async def test_a_full_disk_is_reported_at_the_end_and_the_store_is_closed_nevertheless(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_slave()
    process = cluster.start_master()
    await client.send_until(OK, within_s=10.0)
    before = await client.keys(cluster.master.address)
    cluster.master.disk.fill()
    process.terminate()
    status = await process.exit
    assert "/store was not saved completely: " in str(status)
    assert "consumer offsets: " in str(status)
    assert not cluster.master.disk.exists("/store/abort"), "the log itself is whole"
    cluster.master.disk.heal()
    cluster.start_master()
    await client.send_until(OK, within_s=10.0)
    after = await client.keys(cluster.master.address)
    assert after[: len(before)] == before
