"""Members of groups without a client library: a connection, heartbeats, and the broker's requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.failures import TargetUnfit
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import java_string_hash

BEAT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group at one broker, kept alive by a heartbeat."""

    wire: Wire
    client_id: str
    group: str
    beat: Mapping[str, object]

    async def say_alive(self) -> None:
        """Send the heartbeat. Raises TargetUnfit."""
        answer = await self.wire.ask(RequestCode.HEART_BEAT, body=json.dumps(self.beat).encode())
        if answer.code != ResponseCode.SUCCESS:
            raise TargetUnfit(f"a heartbeat was answered with {answer.code} {answer.remark}")

    async def again(self, bench: Bench) -> Member:
        """Connect once more with the same client id, and send a heartbeat. Raises TargetUnfit."""
        later = replace(self, wire=await bench.connect(self.wire.address))
        await later.say_alive()
        return later

    async def next_request(self, code: int, *, wait_s: float) -> RemotingCommand | None:
        """Wait for the broker's next request with this code, and send heartbeats meanwhile."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        while (left_s := until_s - loop.time()) > 0:
            found = await self.wire.next_request(code, wait_s=min(left_s, BEAT_S))
            if found is not None:
                return found
            await self.say_alive()
        return None


async def register_consumer(
    bench: Bench,
    address: str,
    group: str,
    topic: str,
    *,
    expression: str = "*",
    version: int = 1,
    expression_type: str = "TAG",
) -> Member:
    """Connect a member and send its heartbeat. Raises TargetUnfit."""
    wanted = subscription(topic, expression, version=version, expression_type=expression_type)
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [wanted],
        "unitMode": False,
    }
    return await _register(bench, address, group, consumers=[consumer])


async def register_producer(bench: Bench, address: str, group: str) -> Member:
    """Connect a producer of a group and register it with the broker. Raises TargetUnfit."""
    return await _register(bench, address, group, producers=[{"groupName": group}])


async def _register(
    bench: Bench,
    address: str,
    group: str,
    *,
    producers: Sequence[Mapping[str, object]] = (),
    consumers: Sequence[Mapping[str, object]] = (),
) -> Member:
    client_id = bench.fresh_name("client")
    beat = {
        "clientID": client_id,
        "producerDataSet": list(producers),
        "consumerDataSet": list(consumers),
    }
    wire = await bench.connect(address)
    member = Member(wire=wire, client_id=client_id, group=group, beat=beat)
    await member.say_alive()
    return member


def subscription(
    topic: str, expression: str = "*", *, version: int = 1, expression_type: str = "TAG"
) -> dict[str, object]:
    """Return the SubscriptionData of a heartbeat."""
    is_tags = expression_type == "TAG" and expression != "*"
    tags = [tag.strip() for tag in expression.split("||")] if is_tags else []
    return {
        "topic": topic,
        "subString": expression,
        "tagsSet": tags,
        "codeSet": [java_string_hash(tag) for tag in tags],
        "subVersion": version,
        "expressionType": expression_type,
        "classFilterMode": False,
    }
