"""Serves pulls: code 11 with long polling (RocketMQ, PullMessageProcessor)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from staticfire.system_under_test.broker.config import MASTER_ID, BrokerConfig
from staticfire.system_under_test.broker.metadata.offset_commits import OFFSET_MAX
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topics import PERM_READ, Topics
from staticfire.system_under_test.broker.pulling.held_pulls import HeldPull, HeldPulls
from staticfire.system_under_test.broker.pulling.overtaken_pulls import OvertakenPulls
from staticfire.system_under_test.broker.pulling.pull_filters import (
    PullFilter,
    PullFilters,
    properties_at,
)
from staticfire.system_under_test.broker.pulling.pull_reports import PullReports
from staticfire.system_under_test.broker.refusal import PullRefused
from staticfire.system_under_test.protocol.codes import FAQ, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import PullMessageHeader
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.reading.reading import GetResult, GetStatus
from staticfire.system_under_test.store.results import Dispatched

HOLD_CHECK_INTERVAL_S = 5.0

COMMIT_OFFSET_FLAG = 1  # RocketMQ, PullSysFlag
SUSPEND_FLAG = 2
WOKEN_MAX = 10_000  # with so many woken pulls waiting, new pulls are not held but answered at once

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

GET_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.RECORD_DAMAGED: ResponseCode.PULL_NOT_FOUND,  # until it is repaired from a replica
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullProcessor:
    """Checks a pull, reads the queue, and holds the request if there is nothing to read yet.

    `is_ready`: whether a master has everything that its slaves have. `share`: how much of this loop turn the node's
    requests have used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        filters: PullFilters,
        offsets: ConsumerOffsets,
        held: HeldPulls,
        overtaken: OvertakenPulls,
        *,
        is_ready: Callable[[], bool],
        now_ns: Callable[[], int],
        reports: PullReports,
        share: TurnShare | None = None,
    ) -> None:
        self._share = TurnShare() if share is None else share
        self._woken: deque[HeldPull] = deque()  # to be answered in a later turn
        self._is_ready = is_ready
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._offsets = offsets
        self._held = held
        self._overtaken = overtaken
        self._now_ns = now_ns
        self._reports = reports

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer a pull, or hold it and return None. Raises HeaderError: a header field is missing or malformed."""
        began_ns = self._now_ns()
        header = PullMessageHeader.from_ext(request.ext_fields)
        try:
            wanted = self._check(header)
        except PullRefused as refusal:
            return refusal.answer(request)
        result = self._read(header, wanted)
        commits = header.sys_flag & COMMIT_OFFSET_FLAG and header.commit_offset <= OFFSET_MAX
        queue = (header.consumer_group, header.topic, header.queue_id)
        counts = not self._config.is_slave and self._offsets.has_room(*queue)
        if commits and counts and not self._overtaken.includes(connection, request, queue):
            self._offsets.commit(*queue, header.commit_offset)
        code = self._code_of(header, result)
        if (
            header.sys_flag & SUSPEND_FLAG
            and self._may_hold(code, result)
            and self._hold(connection, request, header, wanted)
        ):
            self._reports.held()
            return None
        return self._answer(request, header, result, code, began_ns)

    def rerun(self, pull: HeldPull) -> None:
        """Answer a pull that was held, after all checks; it is never held again and commits no offset."""
        began_ns = self._now_ns()
        try:
            wanted = self._check(pull.header)
        except PullRefused as refusal:
            answer = refusal.answer(pull.request)
            pull.connection.send(answer)
            return
        result = self._read(pull.header, wanted)
        code = self._code_of(pull.header, result)
        pull.connection.send(self._answer(pull.request, pull.header, result, code, began_ns))

    def messages_arrived(self, messages: list[Dispatched]) -> None:
        """Wake the pulls that wait for messages just dispatched."""
        held = self._held
        if not held:  # one check for all messages of a flush
            return
        for message in messages:
            self._rerun_all(held.take_arrived(message, self._properties_of))

    def _rerun_all(self, pulls: list[HeldPull]) -> None:
        """Answer pulls in order: at once until the share of this turn is used up, the rest in later turns."""
        if not pulls:
            return
        if self._woken or self._share.is_over:
            self._put_off(pulls)
            return
        began_ns = self._now_ns()
        until_ns = began_ns + int(self._share.slice_s * NS_PER_S)
        for number, pull in enumerate(pulls, 1):
            self.rerun(pull)
            if self._now_ns() > until_ns and number < len(pulls):
                self._put_off(pulls[number:])
                break
        spent_ns = self._now_ns() - began_ns
        if spent_ns:
            self._share.spend(spent_ns / NS_PER_S, asyncio.get_running_loop())

    def _put_off(self, pulls: list[HeldPull]) -> None:
        if not self._woken:
            self._share.wait(self._go_on, asyncio.get_running_loop())
        self._woken += pulls

    def _go_on(self) -> None:
        """Answer the pulls that were put off to this turn."""
        began_ns = self._now_ns()
        until_ns = began_ns + int(self._share.slice_s * NS_PER_S)
        while self._woken and self._now_ns() <= until_ns:
            self.rerun(self._woken.popleft())
        loop = asyncio.get_running_loop()
        self._share.spend((self._now_ns() - began_ns) / NS_PER_S, loop)
        if self._woken:
            self._share.wait(self._go_on, loop)

    def _properties_of(self, message: Dispatched) -> Mapping[str, str]:
        return properties_at(self._store.record_of_entry, message.physical_offset)

    @property
    def hold_check_interval_s(self) -> float:
        """Interval of `check_held` (RocketMQ, PullRequestHoldService); with short polling, the holding time."""
        config = self._config
        return HOLD_CHECK_INTERVAL_S if config.long_polling else config.short_polling_s

    def held_count(self) -> int:
        """How many pulls are held."""
        return len(self._held)

    def check_held(self) -> None:
        """Answer the pulls whose time is up; drop those whose connection has closed."""
        self._held.drop_closed()
        self._rerun_all(self._held.take_due(self._now_ns(), self._queue_end))

    def _queue_end(self, topic: str, queue_id: int) -> int:
        return self._store.queue_bounds(topic, queue_id)[1]

    # Checks, in RocketMQ's order

    def _check(self, header: PullMessageHeader) -> PullFilter:
        """Check the request and return the filter of the pull. Raises PullRefused."""
        if not self._config.broker_permission & PERM_READ:
            raise PullRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.listen_host}] pulling message is forbidden",
            )
        self._check_group(header)
        self._check_queue(header)
        return self._filters.find(header)

    def _check_group(self, header: PullMessageHeader) -> None:
        name = header.consumer_group
        group = self._groups.find(name)
        if group is None and self._config.is_slave:
            # the master may have created the group since the last metadata sync, and be gone
            return
        if group is None:
            raise PullRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, {FAQ}",
            )
        if not group.consume_enable:
            raise PullRefused(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}"
            )

    def _check_queue(self, header: PullMessageHeader) -> None:
        if self._config.is_slave and self._queue_end(header.topic, header.queue_id) > 0:
            # slaves copy the log at once, but topics every 10 s: a queue with messages is readable
            return
        topic = self._topics.get(header.topic)
        if topic is None:
            raise PullRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{header.topic}] not exist, apply first please! {FAQ}",
            )
        if not topic.perm & PERM_READ:
            raise PullRefused(
                ResponseCode.NO_PERMISSION,
                f"the topic[{header.topic}] pulling message is forbidden",
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise PullRefused(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}]"
                f" topicConfig.readQueueNums:[{topic.read_queue_nums}]",
            )

    # Reading and answering

    def _read(self, header: PullMessageHeader, wanted: PullFilter) -> GetResult:
        return self._store.get(
            header.topic, header.queue_id, header.queue_offset, header.max_msg_nums, *wanted
        )

    def _code_of(self, header: PullMessageHeader, result: GetResult) -> ResponseCode:
        code = GET_CODES.get(result.status)
        if code is None:  # NO_MESSAGE_IN_QUEUE
            wrong = header.queue_offset != 0
            code = ResponseCode.PULL_OFFSET_MOVED if wrong else ResponseCode.PULL_NOT_FOUND
        if code == ResponseCode.PULL_OFFSET_MOVED and not self._corrects(result):
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        return code

    def _corrects(self, result: GetResult) -> bool:
        """Whether to send a consumer at a wrong offset to the right one.

        A slave may lack messages of its master, and a master messages of its slaves until it has caught up. A consumer
        that has read them elsewhere is ahead of this broker, not wrong.
        """
        if not self._config.corrects_offsets:
            return False
        return self._config.is_slave or result.status not in NOT_YET_STORED or self._is_ready()

    def _may_hold(self, code: ResponseCode, result: GetResult) -> bool:
        """Whether to hold a pull that found nothing.

        A broker that lags also holds a pull beyond its end. RocketMQ's slave answers 20 at once, and a consumer without
        a master then pulls again and again without a pause.
        """
        if code == ResponseCode.PULL_NOT_FOUND:
            return True
        return result.status in NOT_YET_STORED and not self._corrects(result)

    def _hold(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: PullMessageHeader,
        wanted: PullFilter,
    ) -> bool:
        if len(self._woken) > WOKEN_MAX:
            return False
        hold_ns = header.suspend_timeout_millis * NS_PER_MS
        if not self._config.long_polling:
            hold_ns = int(self._config.short_polling_s * NS_PER_S)
        return self._held.hold(
            HeldPull(connection, request, header, wanted, self._now_ns() + hold_ns)
        )

    def _answer(
        self,
        request: RemotingCommand,
        header: PullMessageHeader,
        result: GetResult,
        code: ResponseCode,
        began_ns: int,
    ) -> RemotingCommand:
        body = b"".join(result.records)
        self._reports.answered(header, result, code, len(body), began_ns)
        next_offset = result.next_offset
        if result.status not in FOLLOWED_ON_SLAVES and not self._corrects(result):
            # this broker may lack messages: do not move the consumer
            next_offset = header.queue_offset
        return RemotingCommand.response(
            request,
            code,
            result.status.name,
            {
                "suggestWhichBrokerId": str(self._suggested_broker(header, result)),
                "nextBeginOffset": str(next_offset),
                "minOffset": str(result.min_offset),
                "maxOffset": str(result.max_offset),
            },
            body,
        )

    def _suggested_broker(self, header: PullMessageHeader, result: GetResult) -> int:
        """The broker id to pull from next: a slave for groups that are far behind, if slaves may serve reads."""
        if not self._config.slave_read:
            return MASTER_ID
        group = self._groups.find(header.consumer_group)
        if group is None:
            return MASTER_ID
        return group.which_broker_when_consume_slowly if result.is_far_behind else group.broker_id


NOT_YET_STORED = (
    GetStatus.OFFSET_OVERFLOW_BADLY,
    GetStatus.NO_MESSAGE_IN_QUEUE,
)
FOLLOWED_ON_SLAVES = (
    GetStatus.FOUND,
    GetStatus.NO_MATCHED_MESSAGE,
    GetStatus.MESSAGE_WAS_REMOVING,
)
