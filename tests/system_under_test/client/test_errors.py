"""Errors of clients."""

from __future__ import annotations

from staticfire.system_under_test.client.errors import BrokerRefused


def test_a_refusal_says_what_the_broker_said() -> None:
    error = BrokerRefused(16, "no permission")
    assert str(error) == "no permission"
    assert error.code == 16
