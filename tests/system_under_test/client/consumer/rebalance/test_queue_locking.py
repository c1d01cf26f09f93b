"""Locks against scripted masters at a:0 and b:0."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.system_under_test.client.consumer.rebalance.lock_table import LOCK_LIVE_MAX_S
from staticfire.system_under_test.client.consumer.rebalance.queue_locking import (
    RENEW_INTERVAL_S,
    RENEW_RETRY_S,
    QueueLocking,
)
from staticfire.system_under_test.client.routing.broker_health import PROBE_PAUSE_S
from staticfire.system_under_test.client.routing.routes import broker_routes
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import LockedQueues, QueueLockRequest
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.client.consumer.test_queue_consumer import make_client
from tests.system_under_test.client.scripted_remoting import (
    LATENCY_S,
    Answer,
    ScriptedRemoting,
    answer_code,
    by_code,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import now_s, run

A0, A1, B0 = (MessageQueue("t", *place) for place in (("a", 0), ("a", 1), ("b", 0)))


class Locks:
    """What masters grant, and a client that asks them."""

    def __init__(self, remoting: ScriptedRemoting) -> None:
        self.remoting = remoting
        self.granted = [A0, A1, B0]
        self.lost: list[MessageQueue] = []
        script = by_code(c41=self._lock, other=answer_code(ResponseCode.SUCCESS))
        remoting.scripts.update({"a:0": script, "b:0": script})
        self.client = make_client()
        self.client.routes.update("t", broker_routes(route_of("a", "b")), now_s())
        self.locking = QueueLocking(self.client, "g", self.lost.extend)

    def _lock(self, request: RemotingCommand) -> Answer:
        asked = QueueLockRequest.from_bytes(request.body).queues
        body = LockedQueues(queues=[queue for queue in asked if queue in self.granted])
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body.encode())


def with_locks(story: Callable[[Locks], Awaitable[None]]) -> Callable[[ScriptedRemoting], None]:
    """Makes a test of a coroutine function."""

    def test(remoting: ScriptedRemoting) -> None:
        async def main() -> None:
            await story(Locks(remoting))

        run(main())

    return test


@with_locks
async def test_only_what_brokers_grant_is_ours(locks: Locks) -> None:
    locks.granted = [A1, B0]
    assert await locks.locking.lock([A0, A1, B0]) == [A1, B0]
    held = [queue for queue in (A0, A1, B0) if locks.locking.is_held(queue)]
    assert held == [A1, B0]


@with_locks
async def test_a_broker_that_does_not_answer_grants_nothing_and_takes_nothing_away(
    locks: Locks,
) -> None:
    await locks.locking.lock([A0])
    locks.remoting.scripts["a:0"] = locks.remoting.scripts["b:0"] = stay_silent
    assert await locks.locking.lock([B0]) == []
    await locks.locking.renew()
    assert locks.locking.is_held(A0)
    assert locks.lost == []


@with_locks
async def test_what_a_silent_broker_may_have_locked_is_given_back(locks: Locks) -> None:
    locks.remoting.scripts["b:0"] = stay_silent
    await locks.locking.lock([A0, B0])
    assert [queue for queue in (A0, B0) if locks.locking.is_held(queue)] == [A0]
    [unlock] = locks.remoting.calls_to("b:0", RequestCode.UNLOCK_BATCH_MQ)
    assert QueueLockRequest.from_bytes(unlock.command.body).queues == [B0]
    assert locks.remoting.calls_to("a:0", RequestCode.UNLOCK_BATCH_MQ) == []


@with_locks
async def test_a_broker_that_is_back_gets_what_was_given_back_meanwhile(locks: Locks) -> None:
    await locks.locking.lock([A0, A1, B0])
    locks.client.health.lost("a:0")
    locks.locking.broker_lost("a:0")
    locks.locking.unlock([A0, A1])
    before = len(locks.remoting.calls_to("a:0", RequestCode.UNLOCK_BATCH_MQ))
    await asyncio.sleep(2 * PROBE_PAUSE_S)
    assert locks.client.health.is_answering("a:0")
    locks.locking.broker_back("b:0")
    locks.locking.broker_back("a:0")
    locks.locking.broker_back("a:0")
    [unlock] = locks.remoting.calls_to("a:0", RequestCode.UNLOCK_BATCH_MQ)[before:]
    assert QueueLockRequest.from_bytes(unlock.command.body).queues == [A0, A1]


@with_locks
async def test_what_is_ours_again_is_not_given_back_when_its_broker_is_back(locks: Locks) -> None:
    await locks.locking.lock([A0])
    locks.client.health.lost("a:0")
    locks.locking.broker_lost("a:0")
    locks.locking.unlock([A0])
    await asyncio.sleep(2 * PROBE_PAUSE_S)
    assert await locks.locking.lock([A0]) == [A0]
    before = len(locks.remoting.calls_to("a:0", RequestCode.UNLOCK_BATCH_MQ))
    locks.locking.broker_back("a:0")
    assert len(locks.remoting.calls_to("a:0", RequestCode.UNLOCK_BATCH_MQ)) == before


@with_locks
async def test_renewed_locks_last_and_others_run_out(locks: Locks) -> None:
    await locks.locking.lock([A0])
    for _ in range(5):
        await asyncio.sleep(20.0)
        await locks.locking.renew()
    locks.locking.check()
    assert locks.locking.is_held(A0)
    await asyncio.sleep(LOCK_LIVE_MAX_S)
    assert not locks.locking.is_held(A0)
    locks.locking.check()
    assert locks.lost == [A0]


@with_locks
async def test_locks_that_a_broker_did_not_renew_are_asked_for_again_soon(locks: Locks) -> None:
    await locks.locking.lock([A0, B0])
    answers = locks.remoting.scripts["b:0"]
    locks.remoting.scripts["b:0"] = stay_silent
    await locks.locking.renew()
    assert locks.locking.renew_interval_s() == RENEW_RETRY_S
    locks.remoting.scripts["b:0"] = answers
    await locks.locking.renew()
    assert locks.locking.renew_interval_s() == RENEW_INTERVAL_S


@with_locks
async def test_a_lock_that_is_not_renewed_is_lost(locks: Locks) -> None:
    await locks.locking.lock([A0, A1])
    locks.granted = [A1]
    await locks.locking.renew()
    assert locks.lost == [A0]
    assert not locks.locking.is_held(A0)
    assert locks.locking.is_held(A1)


@with_locks
async def test_a_broker_that_is_lost_takes_its_locks_along(locks: Locks) -> None:
    await locks.locking.lock([A0, B0])
    locks.locking.broker_lost("a:0")
    assert locks.lost == [A0]
    assert locks.locking.is_held(B0)


@with_locks
async def test_a_broker_that_has_left_the_route_takes_its_locks_along(locks: Locks) -> None:
    await locks.locking.lock([A0, B0])
    locks.client.routes.update("t", broker_routes(route_of("b")), now_s())
    locks.locking.broker_lost("a:0")
    assert locks.lost == [A0]


@with_locks
async def test_a_lock_is_of_the_broker_that_answered(locks: Locks) -> None:
    await locks.locking.lock([A0])
    moved = route_of("a", "b")
    moved.broker_datas[0].broker_addrs[0] = "c:0"
    locks.client.routes.update("t", broker_routes(moved), now_s())
    locks.remoting.scripts["c:0"] = stay_silent
    await locks.locking.renew()
    locks.locking.broker_lost("a:0")
    assert locks.lost == [A0]


@with_locks
async def test_a_connection_that_was_replaced_before_the_first_check(locks: Locks) -> None:
    """The broker knows the client on the connection of the heartbeat, and forgot it with that."""
    await locks.client._beat_all()
    await asyncio.sleep(2 * LATENCY_S)  # the brokers have answered
    locks.remoting.replace_connection("a:0")
    locks.client.notice_lost_connections()
    assert not locks.client.health.is_answering("a:0")
    assert locks.client.health.is_answering("b:0")
    await locks.client.health.stop()


@with_locks
async def test_a_connection_that_was_replaced_is_a_broker_that_was_lost(locks: Locks) -> None:
    await locks.client._beat_all()
    for _ in range(2):
        locks.client.notice_lost_connections()
        assert locks.client.health.is_answering("a:0")
    locks.remoting.replace_connection("a:0")
    locks.client.notice_lost_connections()
    assert not locks.client.health.is_answering("a:0")
    assert locks.client.health.is_answering("b:0")
    await locks.client.health.stop()


@with_locks
async def test_what_is_given_back_is_not_asked_for_again(locks: Locks) -> None:
    await locks.locking.lock([A0, A1])
    locks.locking.unlock([A0])
    await locks.locking.renew()
    unlocks = locks.remoting.calls_to("a:0", RequestCode.UNLOCK_BATCH_MQ)
    assert QueueLockRequest.from_bytes(unlocks[0].command.body).queues == [A0]
    renewals = locks.remoting.calls_to("a:0", RequestCode.LOCK_BATCH_MQ)
    assert QueueLockRequest.from_bytes(renewals[-1].command.body).queues == [A1]
    assert locks.lost == []
