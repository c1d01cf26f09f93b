"""Topics of one broker (RocketMQ, TopicConfigManager). Durable in config/topics.json."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.protocol import registration
from staticfire.system_under_test.protocol.bodies import DataVersion, TopicConfig, TopicConfigTable
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC
from staticfire.system_under_test.store.metadata_file import MetadataFile

PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
PERM_READ_WRITE = PERM_READ | PERM_WRITE

TOPIC_LENGTH_MAX = 127
TOPIC_CHARACTERS = re.compile(r"[%|a-zA-Z0-9_-]+")  # RocketMQ, TopicValidator
RETRY_PREFIX = "%RETRY%"
# A broker with so many topics creates no more for sends: each new one rewrites the table. Administrators still may.
TOPICS_MAX = 8_000
TABLE_MAX = registration.TOPICS_MAX  # a broker with more cannot register
BROKER_QUEUES_MAX = 200_000  # of all topics; limits new topics and added queues

AUTO_CREATE_TOPIC = "TBW102"  # RocketMQ, AUTO_CREATE_TOPIC_KEY_TOPIC
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
DELAY_LEVELS = 18

# Clients may not send to these (RocketMQ, TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET).
FORBIDDEN_TOPICS = frozenset(
    (
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    )
)

# Topics that every broker has or whose names it reserves (RocketMQ, TopicValidator.SYSTEM_TOPIC_SET).
RESERVED_TOPICS = (
    AUTO_CREATE_TOPIC,
    SCHEDULE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    TRACE_TOPIC,
    OP_HALF_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_TOPIC,
)

# RocketMQ, TopicSysFlag: created by a producer or for a consumer of one unit of several.
UNIT_FLAG, UNIT_SUBSCRIPTION_FLAG = 0x1, 0x2


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def topic_name_error(topic: str) -> str | None:
    """What is wrong with a topic name, or None."""
    if not topic.strip():
        return "The specified topic is blank."
    if len(topic) > TOPIC_LENGTH_MAX:
        return f"The specified topic is longer than topic max length {TOPIC_LENGTH_MAX}."
    if not TOPIC_CHARACTERS.fullmatch(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


class TableFull(OSError):
    """There are too many topics or queues for another one."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.ENOSPC, text)
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """A change of the topic table. `topic` is None if all of it changed; `by_send`: a send created the topic."""

    topic: str | None
    by_send: bool = False
    deleted: bool = False  # `topic` was deleted


class Topics:
    """The topic table. Every change is durable before it is visible to others.

    Args:
        on_change: called after a change, to register it with the name servers.
        before_delete: called with the name of a topic before it is deleted; may raise OSError.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file: MetadataFile,
        *,
        now_ms: Callable[[], int],
        on_change: Callable[[TopicChange], None],
        before_delete: Callable[[str], None] = lambda _topic: None,
    ) -> None:
        self._config = config
        self._file = file
        self._now_ms = now_ms
        self._on_change = on_change
        self._before_delete = before_delete
        self._topics: dict[str, TopicConfig] = {}
        self._version = DataVersion(timestamp=now_ms(), counter=0)
        self.system_topics: tuple[str, ...] = RESERVED_TOPICS

    def load(self) -> None:
        """Read topics.json and add the system topics. Raises StoreError."""
        document = self._file.load()
        if document is not None:
            table = TopicConfigTable.from_json(document)
            self._topics = dict(table.topics)
            self._version = table.data_version
        system = self._make_system_topics()
        own = [topic.topic_name for topic in system]
        self.system_topics = tuple(dict.fromkeys((*RESERVED_TOPICS, *own)))
        for topic in system:
            self._topics.setdefault(topic.topic_name, topic)

    def _make_system_topics(self) -> list[TopicConfig]:
        config = self._config
        topics = [
            make_topic(SELF_TEST_TOPIC, 1),
            make_topic(BENCHMARK_TOPIC, 1024),
            make_topic(config.cluster_name, 16, _open_or_bare(config.cluster_topic)),
            make_topic(config.broker_name, 1, _open_or_bare(config.broker_topic)),
            make_topic(OFFSET_MOVED_TOPIC, 1),
            make_topic(SCHEDULE_TOPIC, DELAY_LEVELS),
            make_topic(f"{config.cluster_name}_REPLY_TOPIC", 1),
        ]
        if config.auto_create_topics:
            perm = PERM_READ_WRITE | PERM_INHERIT
            topics.append(make_topic(AUTO_CREATE_TOPIC, config.default_topic_queues, perm))
        if config.makes_trace_topic:
            topics.append(make_topic(config.trace_topic, 1))
        return topics

    def get(self, topic: str) -> TopicConfig | None:
        return self._topics.get(topic)

    def table(self) -> TopicConfigTable:
        """The whole table, as name servers get it and slaves copy it."""
        return TopicConfigTable(topics=dict(self._topics), data_version=self._version)

    def is_used(self, topic: str) -> bool:
        """Whether the topic exists or is one of the broker's own, which are configured only when needed."""
        return topic in self._topics or topic in FORBIDDEN_TOPICS

    def is_system(self, topic: str) -> bool:
        return topic in self.system_topics or topic.startswith(SYSTEM_TOPIC_PREFIX)

    def create_on_send(
        self, topic: str, default_topic: str, default_queues: int, *, unit_mode: bool = False
    ) -> TopicConfig | None:
        """Create an unknown topic from the template that the producer names; None if that is not possible.

        RocketMQ, TopicConfigManager.createTopicInSendMessageMethod.
        """
        if len(self._topics) >= TOPICS_MAX:
            return None
        template = self._topics.get(default_topic)
        if default_topic == AUTO_CREATE_TOPIC and not self._config.auto_create_topics:
            # it may still be in the table, from an earlier start or before the option was changed
            template = None
        if template is not None and template.perm & PERM_INHERIT:
            queues = max(0, min(default_queues, template.write_queue_nums))
            perm = template.perm & ~PERM_INHERIT
            made = make_topic(topic, queues, perm, unit_flag(topic, unit_mode))
            made = replace(made, topic_filter_type=template.topic_filter_type)
            return self.put(made, by_send=True)
        if topic.startswith(RETRY_PREFIX):
            made = make_topic(topic, 1, sys_flag=unit_flag(topic, unit_mode))
            return self.put(made, by_send=True)
        return None

    def _check_room(self, wanted: Iterable[TopicConfig]) -> None:
        """Raises TableFull."""
        topics = queues = 0
        for topic in wanted:
            known = self._topics.get(topic.topic_name)
            topics += known is None
            queues += queue_count(topic) - (0 if known is None else queue_count(known))
        if topics and len(self._topics) + topics > TABLE_MAX:
            raise TableFull(f"a broker has up to {TABLE_MAX} topics")
        if queues > 0 and sum(map(queue_count, self._topics.values())) + queues > BROKER_QUEUES_MAX:
            raise TableFull(f"the topics of a broker have up to {BROKER_QUEUES_MAX} queues")

    def create_retry_topic(
        self, group: str, queues: int, *, unit_mode: bool = False
    ) -> TopicConfig:
        """The retry topic of a group, created if it is missing."""
        topic = self._topics.get(retry_topic(group))
        return topic or self.put(make_retry_topic(group, queues, unit_mode=unit_mode), by_send=True)

    def create_missing(self, wanted: Iterable[TopicConfig]) -> None:
        """Create those of `wanted` that do not exist, with one write. Raises OSError like `put`."""
        missing = {
            topic.topic_name: topic for topic in wanted if topic.topic_name not in self._topics
        }
        if len(missing) == 1:
            self.put(*missing.values(), by_send=True)
        elif missing:
            self._check_room(missing.values())
            self._replace({**self._topics, **missing}, TopicChange(topic=None, by_send=True))

    def put(self, topic: TopicConfig, *, by_send: bool = False) -> TopicConfig:
        """Create or replace a topic. Raises OSError if it cannot be made durable; then nothing has changed."""
        self._check_room((topic,))
        changed = {**self._topics, topic.topic_name: topic}
        self._replace(changed, TopicChange(topic=topic.topic_name, by_send=by_send))
        return topic

    def delete(self, topic: str) -> bool:
        """Delete a topic; return whether it existed. Raises OSError like `put`."""
        if topic not in self._topics:
            return False
        self._before_delete(topic)
        kept = {name: config for name, config in self._topics.items() if name != topic}
        self._replace(kept, TopicChange(topic=None, deleted=True))
        return True

    def set_order(self, ordered: Collection[str]) -> bool:
        """Mark exactly these topics as ordered, as far as they exist; return whether that changed any.

        RocketMQ, TopicConfigManager.updateOrderTopicConfig. Raises OSError like `put`.
        """
        changed = {
            name: replace(topic, order=name in ordered)
            for name, topic in self._topics.items()
            if topic.order != (name in ordered)
        }
        if changed:
            self._replace({**self._topics, **changed}, TopicChange(topic=None))
        return bool(changed)

    def mark_changed(self) -> None:
        """Give the table a new version, so that name servers accept it again. Raises OSError like `put`."""
        self._replace(self._topics, TopicChange(topic=None))

    def _replace(self, topics: dict[str, TopicConfig], change: TopicChange) -> None:
        version = DataVersion(timestamp=self._now_ms(), counter=self._version.counter + 1)
        self._file.save(TopicConfigTable(topics=topics, data_version=version).to_json())
        self._topics = topics
        self._version = version
        self._on_change(change)

    def adopt(self, table: TopicConfigTable) -> bool:
        """Adopt the master's table if its version differs (RocketMQ, SlaveSynchronize); return whether it did."""
        if table.data_version == self._version:
            return False
        self._file.save(table.to_json())
        self._topics = dict(table.topics)
        self._version = table.data_version
        return True

    def take_newer(self, table: TopicConfigTable) -> None:
        """Adopt a replica's table on a master with a new disk, if it has been changed more often than our own."""
        if table.data_version.counter > self._version.counter:
            system = {
                name: self._topics[name] for name in self.system_topics if name in self._topics
            }
            self.adopt(replace(table, topics={**system, **table.topics}))
            self._on_change(TopicChange(topic=None))

    def cover(self, queues: Iterable[tuple[str, int]]) -> None:
        """Make each of these queues (topic, queue id) readable and writable, if a topic is missing or too small."""
        own = self.table()
        widened = covering(own, queues).topics
        changed = {
            name: replace(
                topic, write_queue_nums=max(topic.write_queue_nums, topic.read_queue_nums)
            )
            for name, topic in widened.items()
            if topic != own.topics.get(name)
        }
        if changed:
            self._replace({**self._topics, **changed}, TopicChange(topic=None))


def queue_count(topic: TopicConfig) -> int:
    return max(topic.read_queue_nums, topic.write_queue_nums)


def _open_or_bare(is_open: bool) -> int:
    """The permission of a topic with the name of a cluster or a broker."""
    return PERM_INHERIT | (PERM_READ_WRITE if is_open else 0)


def make_topic(
    name: str, queues: int, perm: int = PERM_READ_WRITE, sys_flag: int = 0
) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=sys_flag,
    )


def make_retry_topic(group: str, queues: int, *, unit_mode: bool = False) -> TopicConfig:
    """Make the configuration of a group's retry topic."""
    name = retry_topic(group)
    return make_topic(name, queues, sys_flag=unit_flag(name, unit_mode))


def unit_flag(topic: str, unit_mode: bool) -> int:
    """The system flag of a topic that a client of one unit has created by sending or subscribing."""
    if not unit_mode:
        return 0
    return UNIT_SUBSCRIPTION_FLAG if topic.startswith(RETRY_PREFIX) else UNIT_FLAG


def covering(table: TopicConfigTable, queues: Iterable[tuple[str, int]]) -> TopicConfigTable:
    """The table, widened so that each of these queues (topic, queue id) can be read."""
    topics = dict(table.topics)
    for name, queue_id in queues:
        topic = topics.get(name) or make_topic(name, 0)
        if queue_id >= topic.read_queue_nums:
            topics[name] = replace(topic, read_queue_nums=queue_id + 1)
    return TopicConfigTable(topics=topics, data_version=table.data_version)


def restricted(table: TopicConfigTable, permission: int) -> TopicConfigTable:
    """The table as name servers get it: a topic loses the permissions that the broker lacks."""
    if permission & PERM_READ_WRITE == PERM_READ_WRITE:
        return table
    topics = {name: replace(topic, perm=permission) for name, topic in table.topics.items()}
    return TopicConfigTable(topics=topics, data_version=table.data_version)
