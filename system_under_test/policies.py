"""Where the hardened system and Apache RocketMQ 4.9.8 decide differently: one table, one line a decision.

A policy is a function, a small object or a number that its component is given and calls without asking for the mode.
Whoever wants to know how a mode behaves reads this table and nothing else; `tests/system_under_test/test_policies.py`
shows the difference that each line makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from system_under_test.broker.config import BrokerRole
from system_under_test.broker.visibility import Log, Replicas, safe_end, written_end
from system_under_test.mode import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPolicies:
    """Decisions of a broker and its store."""

    visible_end: Callable[[Log, Replicas, BrokerRole], int]  # R03: consumers see unflushed messages


BROKER_POLICIES = {
    Mode.HARDENED: BrokerPolicies(visible_end=safe_end),
    Mode.FAITHFUL: BrokerPolicies(visible_end=written_end),
}
