"""RMQ-FLT: the messages that match a group's filter."""

from __future__ import annotations

import json
from collections.abc import Mapping

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.consumers import Member, register_consumer, subscription
from staticfire.harness.conformance.request_fields import pull_fields
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

SQL = "SQL92"
NO_SUBSCRIPTION = 0  # system flags of a pull without a subscription
COMMITS = 1  # system flag of a pull that also commits an offset


async def tagged_topic(bench: Bench, *tags: str) -> tuple[str, Wire]:
    """Make a topic with one message for each tag; "" means no tag. The body is the tag."""
    topic, broker = await bench.topic(), await bench.broker()
    for tag in tags:
        await bench.store(
            broker, topic, tag.encode() or b"none", properties={"TAGS": tag} if tag else {}
        )
    return topic, broker


@case("RMQ-FLT-01")
async def tags(bench: Bench) -> None:
    topic, broker = await tagged_topic(bench, "red", "green", "", "blue", "red green")
    expected = {
        "*": [b"red", b"green", b"none", b"blue", b"red green"],
        "red": [b"red"],
        "red || blue": [b"red", b"blue"],
        "green||red": [b"red", b"green"],
        "yellow": [],
    }
    for expression, wanted in expected.items():
        pulled = await bench.pull(broker, topic, subscription=expression)
        found = [message.body for message in pulled.messages]
        require_equal(f"what {expression!r} takes", found, wanted)
        require_equal(f"the next offset of {expression!r}", pulled.next_offset, 5)


@case("RMQ-FLT-03", is_alone=True)
async def sql_that_is_off(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    try:
        await _switch(broker, on=False)
        require_equal(
            "the code of the check",
            await _checked(bench, broker, topic, "a > 1"),
            ResponseCode.SYSTEM_ERROR,
        )
        member = await register_consumer(
            bench,
            broker.address,
            bench.fresh_name("g"),
            topic,
            expression="a > 1",
            expression_type=SQL,
        )
        fields = pull_fields(
            topic, queue=0, offset=0, group=member.group, sysFlag=NO_SUBSCRIPTION, subVersion=1
        )
        fields |= {"expressionType": SQL, "subscription": "a > 1"}
        answer = await member.wire.ask(RequestCode.PULL_MESSAGE, fields)
        require(
            answer.code == ResponseCode.SYSTEM_ERROR,
            f"a pull is answered with {answer.code}; expected 1",
        )
    finally:
        await _switch(broker, on=False)


async def _switch(broker: Wire, *, on: bool) -> None:
    body = f"enablePropertyFilter={'true' if on else 'false'}\n".encode()
    answer = await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    require_equal("the code for the option", answer.code, 0)


async def _checked(bench: Bench, broker: Wire, topic: str, expression: str) -> int:
    body = {
        "clientId": bench.fresh_name("client"),
        "group": bench.fresh_name("g"),
        "subscriptionData": subscription(topic, expression, expression_type=SQL),
    }
    return (await broker.ask(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode())).code


MESSAGES: tuple[Mapping[str, str], ...] = (
    {"a": "1", "b": "x"},
    {"a": "5", "b": "y"},
    {"a": "9"},
    {"b": "z"},
    {"a": "no number", "b": "x"},
    {"a": "7", "b": "x"},
    {"b": ""},
)


async def chosen(bench: Bench, expressions: Mapping[str, list[int]]) -> None:
    """Require that each expression matches the MESSAGES with these indices."""
    topic, broker = await bench.topic(), await bench.broker()
    try:
        await _switch(broker, on=True)
        for index, properties in enumerate(MESSAGES):
            await bench.store(broker, topic, b"%d" % index, properties=dict(properties))
        for expression, wanted in expressions.items():
            group = bench.fresh_name("g")
            member = await register_consumer(
                bench, broker.address, group, topic, expression=expression, expression_type=SQL
            )
            require_equal(f"what {expression} takes", await _taken(bench, member, topic), wanted)
    finally:
        await _switch(broker, on=False)


async def _taken(bench: Bench, member: Member, topic: str) -> list[int]:
    """Return the messages that a member gets from the beginning to the end of the queue."""
    found: list[int] = []
    offset = 0
    while offset < len(MESSAGES):
        pulled = await bench.pull(
            member.wire,
            topic,
            offset=offset,
            group=member.group,
            sysFlag=NO_SUBSCRIPTION,
            subVersion=1,
            expressionType=SQL,
        )
        require(pulled.next_offset > offset, f"no progress at offset {offset}: {pulled.code}")
        found += [int(message.body) for message in pulled.messages]
        offset = pulled.next_offset
    return found


@case("RMQ-FLT-04", is_alone=True)
async def comparisons(bench: Bench) -> None:
    await chosen(
        bench,
        {
            "b = 'x'": [0, 4, 5],
            "b <> 'x'": [1, 3],
            "b IN ('y', 'z')": [1, 3],
            "b = 'x' AND a = 7": [5],
            "b = 'y' OR b = 'z'": [1, 3],
            "NOT (b = 'x')": [1, 3],
            "a BETWEEN 5 AND 8": [1, 5],
            "a > 5": [2, 5],
            "a >= 5 AND a < 9": [1, 5],
        },
    )


@case("RMQ-FLT-05", is_alone=True)
async def missing_properties(bench: Bench) -> None:
    await chosen(
        bench,
        {
            "b IS NULL": [2, 6],
            "b IS NOT NULL": [0, 1, 3, 4, 5],
            "c > 1": [],
            "NOT (c > 1)": [],
            "c > 1 OR b = 'z'": [3],
        },
    )


@case("RMQ-FLT-06", is_alone=True)
async def types(bench: Bench) -> None:
    await chosen(bench, {"a > 0": [0, 1, 2, 5], "a = 7": [5]})


@case("RMQ-FLT-07", is_alone=True)
async def no_expression(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    try:
        await _switch(broker, on=True)
        for expression in ("a >", "a BETWEEN 5 AND 1", "a > 'b'"):
            code = await _checked(bench, broker, topic, expression)
            require_equal(
                f"the code for {expression!r}", code, ResponseCode.SUBSCRIPTION_PARSE_FAILED
            )
        require_equal("the code for a good one", await _checked(bench, broker, topic, "a > 1"), 0)
    finally:
        await _switch(broker, on=False)


@case("RMQ-FLT-08")
async def known_subscriptions(bench: Bench) -> None:
    topic, broker = await tagged_topic(bench, "red", "blue")
    group = bench.fresh_name("g")
    fields = pull_fields(
        topic, queue=0, offset=0, group=group, sysFlag=NO_SUBSCRIPTION, subVersion=7
    )
    unknown = await broker.ask(RequestCode.PULL_MESSAGE, fields)
    require_equal("the code without a heartbeat", unknown.code, ResponseCode.SUBSCRIPTION_NOT_EXIST)
    member = await register_consumer(
        bench, broker.address, group, topic, expression="red", version=6
    )
    old = await member.wire.ask(RequestCode.PULL_MESSAGE, fields)
    require_equal("the code for an older version", old.code, ResponseCode.SUBSCRIPTION_NOT_LATEST)
    for flags in (NO_SUBSCRIPTION, COMMITS):
        pulled = await bench.pull(member.wire, topic, group=group, sysFlag=flags, subVersion=6)
        found = [message.body for message in pulled.messages]
        require_equal(f"what the broker's subscription takes (flags {flags})", found, [b"red"])


@case("RMQ-FLT-09")
async def changed_filters(bench: Bench) -> None:
    topic, broker = await tagged_topic(bench, "red", "blue")
    before = await bench.pull(broker, topic, subscription="red")
    require_equal("what red takes", [m.body for m in before.messages], [b"red"])
    await bench.store(broker, topic, b"blue again", properties={"TAGS": "blue"})
    after = await bench.pull(broker, topic, offset=before.next_offset, subscription="blue")
    require_equal("what blue takes then", [m.body for m in after.messages], [b"blue again"])
