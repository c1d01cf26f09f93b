"""Holds pulls that found nothing until a message arrives (RocketMQ, PullRequestHoldService)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staticfire.system_under_test.broker.pulling.pull_filters import PullFilter
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import PullMessageHeader
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.store.results import Dispatched

QueueKey = tuple[str, int]

HELD_MAX = 50_000  # RocketMQ has no limit; one message may wake all of them
HELD_OF_ONE_MAX = 10_000  # of one connection: a consumer has one pull for each queue
SUBSCRIPTION_LENGTH_MAX = 16 << 10  # characters of a pull's subscription, which it keeps while held
# characters of all held pulls: tags take thirty times as many bytes as they have characters
TEXT_LENGTH_MAX = 4 << 20


class HeldPull:
    """One held pull request: what to look for and until when."""

    __slots__ = ("connection", "deadline_ns", "header", "request", "wanted")

    def __init__(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: PullMessageHeader,
        wanted: PullFilter,
        deadline_ns: int,
    ) -> None:
        self.connection = connection
        # Only the fields that an answer needs: header and body of a request may be large.
        self.request = RemotingCommand(
            request.code,
            opaque=request.opaque,
            flag=request.flag,
            language=request.language,
            version=request.version,
            serialize_type=request.serialize_type,
        )
        self.header = header
        self.wanted = wanted
        self.deadline_ns = deadline_ns


class HeldPulls:
    """Held pulls by topic and queue id.

    A pull leaves when a matching message has been dispatched, when its time is up, or when its connection has closed.
    The caller that takes it out answers it. The number of pulls of one connection and of all, and their text, are
    limited.
    """

    def __init__(self, *, held_max: int = HELD_MAX, held_of_one_max: int = HELD_OF_ONE_MAX) -> None:
        self._by_queue: dict[QueueKey, list[HeldPull]] = {}
        self._by_connection: dict[int, int] = {}  # connection key -> number
        self._count = 0
        self._text_length = 0
        self._held_max = held_max
        self._held_of_one_max = held_of_one_max

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull) -> bool:
        """Hold a pull; False if there are too many, and the caller has to answer it now."""
        of_one = self._by_connection.get(pull.connection.key, 0)
        length = text_length(pull)
        if (
            self._count >= self._held_max
            or of_one >= self._held_of_one_max
            or length > SUBSCRIPTION_LENGTH_MAX
            or self._text_length + length > TEXT_LENGTH_MAX
        ):
            return False
        self._count += 1
        self._text_length += length
        self._by_connection[pull.connection.key] = of_one + 1
        key = (pull.header.topic, pull.header.queue_id)
        self._by_queue.setdefault(key, []).append(pull)
        return True

    def take_arrived(
        self, message: Dispatched, properties_of: Callable[[Dispatched], Mapping[str, str]]
    ) -> list[HeldPull]:
        """Take the pulls that a message just dispatched satisfies; reads its properties only if a filter needs them."""
        key = (message.topic, message.queue_id)
        if key not in self._by_queue:
            return []
        return self._take(
            key,
            lambda pull: (
                message.queue_offset >= pull.header.queue_offset
                and pull.wanted.wakes(message.tags_code, lambda: properties_of(message))
            ),
        )

    def take_due(self, now_ns: int, queue_end: Callable[[str, int], int]) -> list[HeldPull]:
        """Take the pulls whose time is up, and those whose queue has grown by messages that they do not match.

        The caller answers the latter "no match" with an advanced offset, so that a filter never pins an offset.
        """
        due: list[HeldPull] = []
        for key in list(self._by_queue):
            due += self._take_due(key, now_ns, queue_end(*key))
        return due

    def _take_due(self, key: QueueKey, now_ns: int, queue_end: int) -> list[HeldPull]:
        return self._take(
            key,
            lambda pull: now_ns >= pull.deadline_ns or queue_end > pull.header.queue_offset,
        )

    def drop_closed(self) -> None:
        """Drop pulls whose connection has closed."""
        for key in list(self._by_queue):
            self._take(key, lambda pull: pull.connection.closed)

    def _take(self, key: QueueKey, wanted: Callable[[HeldPull], bool]) -> list[HeldPull]:
        taken: list[HeldPull] = []
        kept: list[HeldPull] = []
        for pull in self._by_queue[key]:
            (taken if wanted(pull) else kept).append(pull)
        if taken:
            if kept:
                self._by_queue[key] = kept
            else:
                del self._by_queue[key]
            self._forget(taken)
        return taken

    def _forget(self, pulls: list[HeldPull]) -> None:
        self._count -= len(pulls)
        for pull in pulls:
            self._text_length -= text_length(pull)
            key = pull.connection.key
            left = self._by_connection[key] - 1
            if left:
                self._by_connection[key] = left
            else:
                del self._by_connection[key]


def text_length(pull: HeldPull) -> int:
    """The number of characters that a held pull keeps."""
    header = pull.header
    texts = (header.consumer_group, header.subscription, header.expression_type)
    return sum(len(text) for text in texts if text)
