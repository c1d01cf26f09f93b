"""The table of consumer groups."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from tests.system_under_test.broker.bench import Bench


@pytest.mark.parametrize(
    ("of_group", "of_broker", "hears"),
    [(None, True, True), (True, True, True), (False, True, False), (True, False, False)],
)
def test_who_hears_of_new_members(of_group: bool | None, of_broker: bool, hears: bool) -> None:
    """`of_group`: what the group's settings say; None: it has none."""
    bench = Bench(notify_consumer_ids_changed=of_broker)
    if of_group is not None:
        bench.groups.put(
            SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=of_group)
        )
    assert bench.groups.is_notified_of_changes("g") is hears
