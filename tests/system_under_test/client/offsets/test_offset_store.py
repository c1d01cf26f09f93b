"""The starting offset of a group: the table of RebalancePushImpl.computePullFromWhere, and the cases it leaves out."""

from __future__ import annotations

from contextlib import suppress

import pytest

from staticfire.system_under_test.client.consumer.pull.pull_consumer import PullConsumerConfig
from staticfire.system_under_test.client.offsets.offset_store import (
    CommitSent,
    OffsetStore,
    OffsetUnknown,
    OnCommitSent,
    OnOffsetRead,
)
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import broker_routes
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.remoting import RemotingClosed
from tests.system_under_test.client.scripted_remoting import (
    Answer,
    Script,
    ScriptedRemoting,
    answer_code,
    by_code,
    make_env,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s

LAST, FIRST, AT_TIME = ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET, ConsumeFrom.TIMESTAMP
RETRY = "%RETRY%g"
NONE = answer_code(ResponseCode.QUERY_NOT_FOUND)
MAX, FOUND_BY_TIME = 40, 17


def broken(_: object) -> Answer:
    return RemotingClosed("reset by peer")


def at(offset: int) -> Script:
    return answer_code(ResponseCode.SUCCESS, offset=str(offset))


def store_of(
    remoting: ScriptedRemoting,
    stored: Script,
    *,
    timestamp_ms: int | None = None,
    slave: bool = False,
    on_read: OnOffsetRead | None = None,
    on_sent: OnCommitSent | None = None,
) -> OffsetStore:
    """Of group g, before a master that says this of its offset; or a slave that says so, without the master."""
    script = by_code(c14=stored, c15=at(0), c30=at(MAX), c29=at(FOUND_BY_TIME), other=at(-1))
    remoting.scripts["a:0"] = stay_silent if slave else script
    remoting.scripts["a:1"] = script
    config = PullConsumerConfig(client_id="c", name_servers=(), group="g")
    client = ClientInstance(make_env(), config)
    for topic in ("t", RETRY):
        client.routes.update(topic, broker_routes(route_of("a", slaves=slave)), now_s())
    return OffsetStore(client, "g", timestamp_ms=timestamp_ms, on_read=on_read, on_sent=on_sent)


@pytest.mark.parametrize(
    ("topic", "consume_from", "stored", "start"),
    [
        ("t", LAST, at(7), 7),
        ("t", FIRST, at(7), 7),
        ("t", AT_TIME, at(7), 7),
        ("t", LAST, at(0), 0),  # a young topic, whatever the group wants
        ("t", LAST, NONE, MAX),
        ("t", FIRST, NONE, 0),
        ("t", AT_TIME, NONE, FOUND_BY_TIME),
        (RETRY, LAST, at(7), 7),
        (RETRY, LAST, NONE, 0),
        (RETRY, FIRST, NONE, 0),
        (RETRY, AT_TIME, NONE, 0),  # RocketMQ starts at the end: what failed before is skipped
    ],
)
@in_virtual_time
async def test_where_a_group_starts(
    remoting: ScriptedRemoting, topic: str, consume_from: ConsumeFrom, stored: Script, start: int
) -> None:
    store = store_of(remoting, stored)
    assert await store.start_offset(MessageQueue(topic, "a", 0), consume_from) == start


@pytest.mark.parametrize(("stored", "offset"), [(at(7), 7), (NONE, None)])
@pytest.mark.parametrize("slave", [False, True])
@in_virtual_time
async def test_the_offset_that_a_broker_reported_and_its_name(
    remoting: ScriptedRemoting, stored: Script, offset: int | None, slave: bool
) -> None:
    read: list[tuple[MessageQueue, int | None, int]] = []
    store = store_of(
        remoting, stored, slave=slave, on_read=lambda *configured: read.append(configured)
    )
    queue = MessageQueue("t", "a", 0)
    for _ in range(2):
        with suppress(OffsetUnknown):  # the master is silent, which is found out by asking it
            await store.start_offset(queue, FIRST)
    assert set(read) == {(queue, offset, 1 if slave else 0)}


@in_virtual_time
async def test_which_broker_is_sent_offsets_and_whether_earlier_ones_have_arrived(
    remoting: ScriptedRemoting,
) -> None:
    configured: list[list[CommitSent]] = []
    store = store_of(remoting, at(7), on_sent=configured.append)
    queue = MessageQueue("t", "a", 0)
    store.commit({queue: 1, MessageQueue("t", "a", 1): 1, MessageQueue("t", "x", 0): 1})
    store.commit({queue: 2})
    remoting.have_answered.add("a:0")
    store.commit({queue: 3})
    remoting.have_answered.clear()
    await store.commit_confirmed(queue, 4)
    store.commit({queue: 5})
    store.commit({MessageQueue("t", "x", 0): 1})  # no such broker
    assert configured == [
        [CommitSent("a", 0, earlier)] for earlier in (False, False, True, False, True)
    ]


@pytest.mark.parametrize("consume_from", list(ConsumeFrom))
@pytest.mark.parametrize("stored", [stay_silent, broken, answer_code(ResponseCode.SYSTEM_ERROR)])
@in_virtual_time
async def test_what_is_not_known_is_not_none(
    remoting: ScriptedRemoting, consume_from: ConsumeFrom, stored: Script
) -> None:
    """RocketMQ 4.9.8 takes any answer but success for "no offset" (-1), and starts elsewhere."""
    store = store_of(remoting, stored)
    with pytest.raises(OffsetUnknown):
        await store.start_offset(MessageQueue("t", "a", 0), consume_from)
    asked = {call.command.code for call in remoting.calls}
    assert not asked & {RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP}


@pytest.mark.parametrize(
    ("timestamp_ms", "minus_ms"), [(None, 30 * 60 * 1000), (1_600_000_000_000, None)]
)
@in_virtual_time
async def test_what_a_time_means(
    remoting: ScriptedRemoting, timestamp_ms: int | None, minus_ms: int | None
) -> None:
    """By default half an hour before the start (RocketMQ: consumeTimestamp)."""
    store = store_of(remoting, NONE, timestamp_ms=timestamp_ms)
    wanted_ms = timestamp_ms or make_env().clock.wall_ms() - (minus_ms or 0)
    await store.start_offset(MessageQueue("t", "a", 0), AT_TIME)
    [search] = remoting.calls_to("a:0", RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert int(search.command.ext_fields["timestamp"]) == wanted_ms


@pytest.mark.parametrize(("consume_from", "start"), [(FIRST, 0), (LAST, None), (AT_TIME, None)])
@in_virtual_time
async def test_a_slave_that_has_no_offset_does_not_know(
    remoting: ScriptedRemoting, consume_from: ConsumeFrom, start: int | None
) -> None:
    store = store_of(remoting, NONE, slave=True)
    queue = MessageQueue("t", "a", 0)
    for _ in range(2):  # the first question finds out that the master is silent
        try:
            found = await store.start_offset(queue, consume_from)
        except OffsetUnknown:
            found = None
    assert found == start
