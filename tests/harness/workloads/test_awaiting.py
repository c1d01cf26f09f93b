"""Messages that the drain waits for: those that brokers still hold back from consumers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from staticfire.checkers.model.history import Op
from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.clients.port import TO_BE_ASKED
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.workloads import broadcast, delayed, retry, transactional
from staticfire.harness.workloads.catalogue import WORKLOADS
from tests.checkers.stories import RETRY_TOPIC, Story

NS_PER_S = 1_000_000_000


def commit(story: Story, key: str, **more: Any) -> list[Op]:
    return story.send(0.0, key, transaction="commit", state="commit", **more).ops


def test_committed_transactions_are_awaited_until_a_member_has_seen_them() -> None:
    assert transactional.awaits(commit(Story(), "a"), 0) is not None
    assert transactional.awaits(commit(Story().consume(0.0, "a", 0), "a"), 0) is None  # quicker
    assert transactional.awaits(Story().send(0.0, "a", "info", transaction="commit").ops, 0) is None
    asked = Story().op(
        0.0, "info", "send", {"key": "a", "transaction": "commit"}, error=TO_BE_ASKED
    )
    assert transactional.awaits(asked.ops, 0) is not None


def test_delayed_messages_are_awaited_until_they_have_come() -> None:
    story = Story().send(0.0, "a", delay_level=1, delay_ms=1000)
    assert "1 of them not due" in str(delayed.awaits(story.ops, NS_PER_S))
    assert "0 of them not due" in str(delayed.awaits(story.ops, 9 * NS_PER_S))
    assert delayed.awaits(story.consume(1.1, "a", 0).ops, 9 * NS_PER_S) is None


def test_retries_are_awaited_until_they_succeed_or_are_used_up() -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    assert retry.awaits(story.ops, 0) is not None
    assert retry.awaits(story.consume(9.0, "a", 0, topic=RETRY_TOPIC, tries=1).ops, 0) is None
    last = Story().consume(1.0, "a", 0, "info", tries=retry.RETRIES_MAX)
    assert retry.awaits(last.ops, 0) is None


def test_members_of_a_broadcasting_group_are_awaited_one_by_one() -> None:
    story = Story().opened("c1", 100, model="broadcasting").opened("c2", 101, model="broadcasting")
    story.send(0.0, "a")
    assert broadcast.awaits(story.ops, 0) == "2 deliveries to members"


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_workload_has_a_generator_members_and_a_summary(name: str) -> None:
    campaign = draw_campaign(3, {"workload": name})
    workload = WORKLOADS[name]
    generator = workload.generator(Random(1), campaign)
    ops = [op for process in range(50) if (op := generator.next_op(process % 4)) is not None]
    assert len(ops) == 50
    assert len(workload.members(campaign)) == campaign.consumers
    assert len(workload.summary) < 110


def test_what_a_client_cannot_do_is_refused_in_one_sentence() -> None:
    given = {"workload": "transactional", "client": "cpp", "environment": "processes"}
    with pytest.raises(CampaignError, match="workload is 'transactional'; allowed: another one"):
        draw_campaign(1, given)
