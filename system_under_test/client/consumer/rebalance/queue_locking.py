"""Locks queues at brokers, so that this client alone consumes them (RocketMQ: RebalanceImpl.lock, lockAll, unlock).

A lock is in the memory of a master. A client gives a queue up at once if it cannot be sure of its lock any more: the
broker refuses it, has been silent for too long, or was lost and may have restarted without its locks. RocketMQ goes on
with cached messages, which others may have consumed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from staticfire.system_under_test.client.consumer.rebalance.lock_table import LockTable
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.waiting import see_exception, succeeded, wait_until
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import LockedQueues, QueueLockRequest
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

RENEW_INTERVAL_S = 20.0  # RocketMQ: rocketmq.client.rebalance.lockInterval
RENEW_RETRY_S = 2.0  # if a broker did not answer, as its locks would expire before the next round
LOCK_TIMEOUT_S = 1.0  # RocketMQ: MQClientAPIImpl.lockBatchMQ


class QueueLocking:
    """The locks of one client for one group.

    Args:
        on_lost: called with queues whose locks are lost or uncertain.
    """

    def __init__(
        self, client: ClientInstance, group: str, on_lost: Callable[[list[MessageQueue]], None]
    ) -> None:
        self._is_renewed = True  # every broker answered the last renewal
        self._client = client
        self._group = group
        self._on_lost = on_lost
        self._table = LockTable()
        self._address_of: dict[str, str] = {}  # address of the broker that answered, by its name
        # given back, but the broker may not have got the unlock
        self._owed: dict[MessageQueue, None] = {}
        self._loop = asyncio.get_running_loop()

    def is_held(self, queue: MessageQueue) -> bool:
        return self._table.is_held(queue, self._loop.time())

    def asked_at_s(self, queue: MessageQueue) -> float | None:
        return self._table.asked_at_s(queue)

    async def lock(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """Lock queues; return those that are locked for us now.

        A broker that did not answer may still read the request later, and lock the queues for a minute. So it gets an
        unlock behind the request. RocketMQ sends none.
        """
        asked_at_s = self._loop.time()
        answers = await self._ask(queues)
        self.unlock(queue for queue in queues if queue.broker_name not in answers)
        granted = [queue for queue in queues if queue in answers.get(queue.broker_name, ())]
        for queue in granted:
            self._table.granted(queue, asked_at_s)
        return granted

    async def renew(self) -> None:
        """Renew all locks. Locks at a broker that does not answer stay valid until they expire."""
        asked_at_s = self._loop.time()
        queues = self._table.queues
        answers = await self._ask(queues)
        self._is_renewed = all(queue.broker_name in answers for queue in queues)
        lost = []
        for queue in queues:
            if self._table.asked_at_s(queue) is None or queue.broker_name not in answers:
                continue  # given up meanwhile, or the broker did not answer
            if queue in answers[queue.broker_name]:
                self._table.granted(queue, asked_at_s)
            else:
                self._table.forget(queue)
                lost.append(queue)
        self._tell_lost(lost)

    def renew_interval_s(self) -> float:
        """Return how long to wait before the locks are renewed again."""
        return RENEW_INTERVAL_S if self._is_renewed else RENEW_RETRY_S

    def check(self) -> None:
        """Give up queues whose locks were not renewed in time."""
        self._tell_lost(self._table.take_expired(self._loop.time()))

    def broker_lost(self, address: str) -> None:
        """Give up a broker's queues: it is silent or its connection ended, and after a restart it has no locks."""
        # The route may have lost this broker by now.
        names = [name for name, of_broker in self._address_of.items() if of_broker == address]
        self._tell_lost(self._table.take_of(names))

    def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock queues, one way. A silent broker gets the request once more when it is back.

        Until then it keeps the locks, for a minute. RocketMQ sends the unlock only once.
        """
        for broker_name, ours in by_broker(queues).items():
            for queue in ours:
                self._table.forget(queue)
            address = self._client.master(broker_name)
            connection = None if address is None else self._client.remoting.connection(address)
            if connection is not None:
                connection.invoke_oneway(self._command(RequestCode.UNLOCK_BATCH_MQ, ours))
            if (
                connection is None
                or address is None
                or not self._client.health.is_answering(address)
            ):
                self._owed.update(dict.fromkeys(ours))

    def broker_back(self, address: str) -> None:
        """Unlock again at a broker that answers again: it may still have locks that we have given up."""
        owed = [one for one in self._owed if self._client.master(one.broker_name) == address]
        for queue in owed:
            del self._owed[queue]
        self.unlock(queue for queue in owed if self._table.asked_at_s(queue) is None)

    def _tell_lost(self, lost: list[MessageQueue]) -> None:
        if lost:
            self._client.env.log.warning("queues are not ours any more", queues=len(lost))
            self._on_lost(lost)

    async def _ask(self, queues: Sequence[MessageQueue]) -> dict[str, list[MessageQueue]]:
        """The queues that masters have locked for us, by broker name; leaves out masters that do not answer."""
        asked: dict[tuple[str, str], asyncio.Future[RemotingCommand]] = {}
        for broker_name, ours in by_broker(queues).items():
            address = self._client.master(broker_name)
            if address is not None and self._client.health.is_answering(address):
                command = self._command(RequestCode.LOCK_BATCH_MQ, ours)
                answer = self._client.ask(address, command, LOCK_TIMEOUT_S)
                answer.add_done_callback(see_exception)
                asked[broker_name, address] = answer
        await wait_until(list(asked.values()), lambda: False, None)
        answered = {name: answer for name, answer in asked.items() if succeeded(answer)}
        self._address_of.update(answered.keys())
        return {name: self._read(answer.result()) for (name, _), answer in answered.items()}

    def _read(self, response: RemotingCommand) -> list[MessageQueue]:
        if response.code != ResponseCode.SUCCESS:
            return []
        try:
            return LockedQueues.from_bytes(response.body).queues
        except ValueError as error:
            self._client.env.log.warning("answer about locks cannot be read", error=str(error))
            return []

    def _command(self, code: RequestCode, queues: Sequence[MessageQueue]) -> RemotingCommand:
        body = QueueLockRequest(
            consumer_group=self._group, client_id=self._client.client_id, queues=list(queues)
        )
        return RemotingCommand.request(code, body=body.encode())


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
