"""Producers that send in the name of other accounts."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.clients import producer
from staticfire.harness.clients.producer import OtherAccounts
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.client.producer.producer import ProducerConfig
from staticfire.system_under_test.runtime.env import Env

CONFIG = ProducerConfig(group="orders", name_servers=("n:1",), client_id="1.1.1.1@p")


def test_the_producers_of_other_accounts_share_no_group_with_those_that_answer_for_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ProducerConfig] = []

    class Recorded:
        def __init__(self, _env: Env, config: ProducerConfig) -> None:
            made.append(config)

        async def start(self) -> None: ...

    monkeypatch.setattr(producer, "Producer", Recorded)
    keys: dict[str, Any] = {"access_key": "reader", "secret_key": "of the reader"}

    async def main() -> None:
        env: Any = None
        others = OtherAccounts(env, CONFIG, {"reader": keys, "unsigned": {}})
        for name in ("reader", "unsigned", "reader"):
            await others.of(name)

    World(1).run(main)

    assert [config.group for config in made] == ["orders-reader", "orders-unsigned"]
    assert {config.retries for config in made} == {0}
