"""Checks open transactions with their producers (RocketMQ, TransactionalMessageServiceImpl.check).

A round walks over the half queue. It passes half messages that are over. It puts one that is open and old enough back
at the end of the queue, so that the walk can go on, and asks its producer (code 39). It parks one that was checked too
often.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.delivery.half_messages import QUEUE_ID, HalfMessages
from staticfire.system_under_test.broker.delivery.transaction_policy import (
    FIRST_STORED_PROPERTY,
    TransactionPolicy,
)
from staticfire.system_under_test.broker.delivery.transactions import (
    CHECK_TIMES_PROPERTY,
    PRODUCER_GROUP_PROPERTY,
)
from staticfire.system_under_test.broker.metadata.topic_redirection import real_destination
from staticfire.system_under_test.broker.metadata.topics import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    Topics,
    make_topic,
)
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import CheckTransactionStateHeader
from staticfire.system_under_test.protocol.message import Message, encode_record, offset_message_id
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.runtime.env import Clock, Log
from staticfire.system_under_test.store.results import PutResult, PutStatus

IMMUNITY_PROPERTY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
ORIGINAL_OFFSET_PROPERTY = "TRAN_PREPARED_QUEUE_OFFSET"
UNIQUE_KEY_PROPERTY = "UNIQ_KEY"
WAIT_PROPERTY = "WAIT"
NS_PER_MS = 1_000_000
MS_PER_S = 1_000
MS_PER_HOUR = 3_600_000
CHANNEL_TRIES_MAX = 3  # RocketMQ, ProducerManager.GET_AVAILABLE_CHANNEL_RETRY_COUNT


class TransactionCheck:
    """One round: `begin`, then `step` until it returns False."""

    def __init__(
        self,
        config: BrokerConfig,
        halves: HalfMessages,
        copies: InternalCopies,
        topics: Topics,
        clients: Clients,
        clock: Clock,
        log: Log,
        policy: TransactionPolicy,
    ) -> None:
        self._config = config
        self._halves = halves
        self._copies = copies
        self._topics = topics
        self._clients = clients
        self._clock = clock
        self._log = log
        self._policy = policy
        # the end of the half queue in this round; later messages wait for the next one
        self._end = 0
        # (end of the half queue, monotonic time in ms) of earlier rounds.
        self._rounds: deque[tuple[int, int]] = deque()
        self._turn = 0  # selects a producer of a group in turn

    def begin(self) -> None:
        """Begin a round over the half queue up to its present end."""
        self._halves.write_missing_ops()
        low, self._end = self._halves.bounds()
        if self._halves.progress.position < low:
            self._halves.progress.jump(low)
        self._rounds.append((self._end, self._running_ms()))
        self._forget_rounds()

    def _forget_rounds(self) -> None:
        """Drop rounds whose end lies at or before the half message at the position of the check."""
        rounds = self._rounds
        while len(rounds) > 1 and rounds[0][0] <= self._halves.progress.position:
            rounds.popleft()

    def _running_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS

    def _age_ms(self, half: Message, times: int) -> int:
        """How long (ms) the half message at the check's position has been open; below 0 if it is from the future."""
        age_ms = self._clock.wall_ms() - self._policy.since_ms(half)
        if age_ms >= 0 or not self._policy.waits_for_the_future or times > 0:
            return age_ms
        self._forget_rounds()  # keeps this round, which ends behind the half message
        return self._running_ms() - self._rounds[0][1]

    def step(self) -> bool:
        """Process one half message; return whether there may be another."""
        halves = self._halves
        if halves.lacks_ops():
            return False
        offset = halves.progress.position
        if offset >= self._end:
            return False
        if not self._has_topic(HALF_TOPIC):
            return False
        if halves.is_over(offset):
            halves.pass_over()
            return True
        half = halves.read(offset)
        if half is None:
            if halves.waits_for_repair(offset):
                return False
            self._log.error("half message cannot be read", queue_offset=offset)
            if self._policy.skips_unreadable:
                halves.pass_over()
            return self._policy.skips_unreadable
        return self._examine(half)

    def _has_topic(self, name: str) -> bool:
        """Create the topic if it is missing; False if the disk is too full for that, and then this round ends."""
        if self._topics.get(name) is None:
            try:
                self._topics.put(make_topic(name, 1))
            except OSError as error:
                self._log.warning("topic cannot be made", topic=name, error=str(error))
                return False
        return True

    def _examine(self, half: Message) -> bool:
        times = number(half.properties.get(CHECK_TIMES_PROPERTY)) or 0
        age_ms = self._age_ms(half, times)
        reserved_ms = self._config.reserved_hours * MS_PER_HOUR  # retention may delete it soon
        if times >= self._config.transaction_check_max or age_ms > reserved_ms:
            return self._park(half)
        counted = times + 1 if self._policy.counts_every_visit else times
        # The age is read once: with two readings, a message at the limit could be passed without ever being checked
        # (RocketMQ issue 544).
        immunity_s = number(half.properties.get(IMMUNITY_PROPERTY))
        if immunity_s is not None and age_ms < immunity_s * MS_PER_S:
            return self._put_back_immune(half, counted, age_ms)
        if immunity_s is None and 0 <= age_ms < self._config.transaction_timeout_s * MS_PER_S:
            return False  # all messages behind it are younger
        connection = self._choose_producer(half.properties.get(PRODUCER_GROUP_PROPERTY, ""))
        back = self._copy(half, counted if connection is None else times + 1, age_ms)
        result = self._put_back(back, is_asked=connection is not None)
        if result.status is PutStatus.PUT_OK and connection is not None:
            connection.invoke_oneway(make_check(back, result))
        return result.status is PutStatus.PUT_OK

    def _put_back_immune(self, half: Message, times: int, age_ms: int) -> bool:
        back = self._copy(half, times, age_ms)
        back.properties.setdefault(ORIGINAL_OFFSET_PROPERTY, str(half.queue_offset))
        back.properties[WAIT_PROPERTY] = "false"
        return self._put_back(back, is_asked=False).status is PutStatus.PUT_OK

    def _copy(self, half: Message, times: int, age_ms: int) -> Message:
        properties = half.properties | {CHECK_TIMES_PROPERTY: str(times)}
        if not self._policy.keeps_flag:
            return replace(half, properties=properties, flag=0, reconsume_times=0)
        properties[FIRST_STORED_PROPERTY] = str(self._clock.wall_ms() - max(age_ms, 0))
        return replace(half, properties=properties)

    def _park(self, half: Message) -> bool:
        if not self._has_topic(CHECK_MAX_TIME_TOPIC):
            return False
        self._log.warning("transaction was given up", queue_offset=half.queue_offset)
        parked = replace(half, topic=CHECK_MAX_TIME_TOPIC, queue_id=QUEUE_ID)
        result = self._copies.put(parked)
        if result.status is PutStatus.PUT_OK:
            self._halves.park(result)
        return result.status is PutStatus.PUT_OK

    def _put_back(self, copy: Message, *, is_asked: bool) -> PutResult:
        """Append a copy of the half message; if the store refuses, the check stays at this half message."""
        result = self._copies.put(copy)
        if result.status is PutStatus.PUT_OK:
            self._halves.put_back(result, is_asked=is_asked)
        return result

    def _choose_producer(self, group: str) -> Connection | None:
        """One open connection of the group, in turn; None if there is none."""
        members = self._clients.producers(group)
        if not self._policy.asks_old_connections:
            members = [member for member in members if not member.is_replaced]
        for _ in range(min(CHANNEL_TRIES_MAX, len(members))):
            connection = members[self._turn % len(members)].connection
            self._turn += 1
            if not connection.closed:
                return connection
        return None


def number(text: str | None) -> int | None:
    """The number in a property; None if it is missing or not a number."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def make_check(half: Message, result: PutResult) -> RemotingCommand:
    """Code 39 for a half message that was put back: with the offsets of the copy, and the rest as sent."""
    destination = real_destination(half) or (half.topic, half.queue_id)
    shown = replace(
        half,
        topic=destination[0],
        queue_id=destination[1],
        properties=half.properties | {WAIT_PROPERTY: "false"},
        queue_offset=result.queue_offset,
        physical_offset=result.physical_offset,
    )
    unique_key = half.properties.get(UNIQUE_KEY_PROPERTY)
    header = CheckTransactionStateHeader(
        tran_state_table_offset=result.queue_offset,
        commit_log_offset=result.physical_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=offset_message_id(*half.store_host, result.physical_offset),
    )
    code = RequestCode.CHECK_TRANSACTION_STATE
    return RemotingCommand.request(code, header.to_ext(), bytes(encode_record(shown)))
