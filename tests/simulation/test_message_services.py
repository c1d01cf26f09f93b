"""Delays, retries and transactions on a broker that is killed and loses its power again and again.

Every test is a promise over 20 seeds; `[7]` in the name of a failed one is the seed that repeats it.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.remoting import Connection
from tests.support.crashing_broker import Client, CrashingBroker

SEEDS = range(20)
DELAYS_MS = {"1": 1_000, "2": 5_000}
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP = "producers"


@pytest.mark.parametrize("seed", SEEDS)
def test_delayed_messages_are_never_early_and_never_lost(seed: int) -> None:
    # A slow disk, and progress written down often: time enough for it to get ahead of the messages.
    broker = CrashingBroker(seed, fsync_ns=60_000_000, delay_offset_flush_interval_s=0.1)

    async def story(client: Client) -> None:
        sent: dict[bytes, tuple[int, str]] = {}
        crashes = asyncio.ensure_future(broker.crash_for(20))
        number = 0
        while not crashes.done():
            number += 1
            body, level = b"%d" % number, str(1 + number % 2)
            at_ms = client.now_ms
            if await client.send(body, {"DELAY": level}) is not None:
                sent[body] = (at_ms, level)
            await asyncio.sleep(0.1)
        await asyncio.sleep(7)
        messages = await client.read()
        for message in messages:
            early_ms = message.born_timestamp_ms + DELAYS_MS[message.properties["DELAY"]]
            assert message.store_timestamp_ms >= early_ms, message.body
        counts = Counter(message.body for message in messages)
        assert len(sent) > 20
        assert [body for body in sent if not counts[body]] == []
        await broker.stop()
        broker.start()
        await asyncio.sleep(7)
        assert len(await client.read()) == len(messages)  # a graceful stop repeats nothing

    broker.run(story)
    assert broker.crashes > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_consumer_sends_back_comes_again_until_it_is_a_dead_letter(seed: int) -> None:
    broker = CrashingBroker(seed, delay_offset_flush_interval_s=1.0)

    async def send_back(client: Client, offset: int) -> None:
        ext = {"offset": offset, "group": "g", "delayLevel": 1, "maxReconsumeTimes": 3}
        await client.ask_until((0,), 36, ext)

    async def story(client: Client) -> None:
        sent = [b"%d" % number for number in range(20)]
        for body in sent:
            while await client.send(body) is None:
                await asyncio.sleep(0.1)
        crashes = asyncio.ensure_future(broker.crash_for(20))
        for topic in ("TopicTest", "%RETRY%g"):
            begin, quiet = 0, 0
            while quiet < 80 and not (topic == "TopicTest" and begin >= len(sent)):
                messages = await client.read(topic, begin)
                for message in messages:
                    await send_back(client, message.physical_offset)
                begin += len(messages)
                quiet = 0 if messages or not crashes.done() else quiet + 1
                await asyncio.sleep(0.1)
        retried = Counter((m.body, m.reconsume_times) for m in await client.read("%RETRY%g"))
        dead = Counter(m.body for m in await client.read("%DLQ%g"))
        for body in sent:
            assert [times for times in (1, 2, 3) if retried[body, times]] == [1, 2, 3], body
            assert dead[body] >= 1
        assert {times for _, times in retried} == {1, 2, 3}

    broker.run(story)
    assert broker.crashes > 2


def outcome(body: bytes) -> int:
    """What the producer has decided about a message: it does not change its mind."""
    return COMMIT if int(body) % 3 else ROLLBACK


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_committed_or_rolled_back_and_none_stays_open(seed: int) -> None:
    broker = CrashingBroker(
        seed,
        fsync_ns=60_000_000,
        transaction_check_interval_s=0.5,
        transaction_timeout_s=0.3,
        offset_flush_interval_s=0.1,
        delay_offset_flush_interval_s=0.1,
    )
    checks: list[bytes] = []

    def end_ext(how: int, queue_offset: str, physical_offset: str) -> dict[str, str]:
        return {
            "producerGroup": GROUP,
            "tranStateTableOffset": queue_offset,
            "commitLogOffset": physical_offset,
            "commitOrRollback": str(how),
            "msgId": "U",
        }

    def on_request(connection: Connection, request: RemotingCommand) -> None:
        assert request.code == 39
        body = decode_record(request.body).body
        checks.append(body)
        ext = request.ext_fields
        how = outcome(body)
        ext = end_ext(how, ext["tranStateTableOffset"], ext["commitLogOffset"])
        connection.invoke_oneway(RemotingCommand.request(37, ext, oneway=True))

    async def beat(client: Client) -> None:
        body = b'{"clientID":"p@1","producerDataSet":[{"groupName":"%s"}],"consumerDataSet":[]}'
        while True:
            await client.ask(34, {}, body % GROUP.encode())
            await asyncio.sleep(1)

    async def story(client: Client) -> None:
        heartbeats = asyncio.ensure_future(beat(client))
        crashes = asyncio.ensure_future(broker.crash_for(20))
        sent = []
        number = 0
        while not crashes.done():
            number += 1
            body = b"%d" % number
            properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"U{number}"}
            half = await client.send(body, properties, sys_flag=4)
            if half is not None:
                sent.append(body)
                how = outcome(body) if number % 4 else UNKNOWN
                physical_offset = str(int(half.ext_fields["msgId"][16:], 16))
                ext = end_ext(how, half.ext_fields["queueOffset"], physical_offset)
                await client.tell(37, ext)
            await asyncio.sleep(0.1)
        await asyncio.sleep(15)
        asked = len(checks)
        assert asked > 0
        await asyncio.sleep(10)
        assert len(checks) == asked  # nothing is open any more
        visible = Counter(message.body for message in await client.read())
        assert len(sent) > 20
        assert [body for body in sent if outcome(body) == COMMIT and not visible[body]] == []
        assert [body for body in visible if outcome(body) == ROLLBACK] == []
        heartbeats.cancel()

    broker.run(story, on_request)
    assert broker.crashes > 2
