"""Consumer offsets of a master and of the slave that copies them, against plain dicts."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from staticfire.system_under_test.broker.metadata.offsets import (
    ConsumerOffsets,
    offset_table_from_json,
)
from staticfire.system_under_test.protocol import json_dialect

pytestmark = pytest.mark.slow

GROUPS, TOPICS, QUEUES = ("g", "h"), ("t", "tt"), range(3)
groups, topics = st.sampled_from(GROUPS), st.sampled_from(TOPICS)
numbers = st.integers(-1, 9)

Model = dict[tuple[str, str], dict[int, int]]


class Offsets(RuleBasedStateMachine):
    """`model` is what the master must say, `copy` what the slave must."""

    def __init__(self) -> None:
        super().__init__()
        self.master = ConsumerOffsets()
        self.slave = ConsumerOffsets()
        self.model: Model = {}
        self.copy: Model = {}

    @rule(group=groups, topic=topics, queue_id=st.sampled_from(list(QUEUES)), offset=numbers)
    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.master.changed = False
        before = self.model.get((topic, group), {}).get(queue_id)
        self.master.commit(group, topic, queue_id, offset)
        self.model.setdefault((topic, group), {})[queue_id] = offset
        assert self.master.changed == (before != offset)

    @rule(source=groups, heir=groups, topic=topics)
    def clone(self, source: str, heir: str, topic: str) -> None:
        self.master.clone(source, heir, topic)
        if (topic, source) in self.model:
            self.model[topic, heir] = dict(self.model[topic, source])

    @rule(topic=topics)
    def forget_topic(self, topic: str) -> None:
        self.master.forget_topic(topic)
        self.model = {key: queues for key, queues in self.model.items() if key[0] != topic}

    @rule(group=groups)
    def forget_group(self, group: str) -> None:
        self.master.forget_group(group)
        self.model = {key: queues for key, queues in self.model.items() if key[1] != group}

    @rule(end=st.integers(0, 9))
    def clamp(self, end: int) -> None:
        self.master.clamp(lambda topic, queue_id: end + queue_id)
        for queues in self.model.values():
            for queue_id, offset in queues.items():
                queues[queue_id] = min(offset, end + queue_id)

    @rule()
    def sync(self) -> None:
        """The slave asks with code 43: what it has of its own stays, whole queue maps are replaced."""
        answer = json_dialect.dumps(self.master.snapshot())
        self.slave.merge(offset_table_from_json(json_dialect.loads(answer)))
        self.copy |= {key: dict(queues) for key, queues in self.model.items()}

    @rule(group=groups, topic=topics, queue_id=st.sampled_from(list(QUEUES)), offset=numbers)
    def commit_at_slave(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A consumer commits to the slave while the master is away; that must not show at the master."""
        self.slave.commit(group, topic, queue_id, offset)
        self.copy.setdefault((topic, group), {})[queue_id] = offset

    @rule()
    def restart(self) -> None:
        """Through consumerOffset.json."""
        text = json.dumps(self.master.snapshot())
        self.master = ConsumerOffsets()
        self.master.merge(offset_table_from_json(json_dialect.loads(text)))

    @invariant()
    def tables_agree(self) -> None:
        for offsets, model in ((self.master, self.model), (self.slave, self.copy)):
            for topic in TOPICS:
                for group in GROUPS:
                    assert offsets.queues(group, topic) == model.get((topic, group), {})
                wanted = sorted(group for known, group in model if known == topic)
                assert offsets.groups_of(topic) == wanted


TestOffsets = Offsets.TestCase


def test_offsets_as_java_writes_them() -> None:
    text = '{"offsetTable":{"t@g":{0:5,1:7},"%RETRY%g@g":{0:1}}}'
    assert offset_table_from_json(json_dialect.loads(text)) == {
        "t@g": {0: 5, 1: 7},
        "%RETRY%g@g": {0: 1},
    }
