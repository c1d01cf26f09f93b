"""Single lines of a policy table: everything hardened, but for the policies that are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES, broker_policies
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.configuration.policy_choice import policy_names
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.policies import (
    NAME_SERVER_POLICIES,
    name_server_policies,
)

HARDENED, FAITHFUL = BROKER_POLICIES[Mode.HARDENED], BROKER_POLICIES[Mode.FAITHFUL]


def broker(mode: Mode, *names: str) -> BrokerConfig:
    return BrokerConfig(broker_name="a", listen_host="10.0.0.1", mode=mode, faithful_policies=names)


@pytest.mark.parametrize("mode", list(Mode))
def test_without_names_all_policies_are_those_of_the_mode(mode: Mode) -> None:
    assert broker_policies(broker(mode)) is BROKER_POLICIES[mode]
    config = NameServerConfig(listen_host="10.0.0.1", mode=mode)
    assert name_server_policies(config) is NAME_SERVER_POLICIES[mode]


def test_what_is_named_is_faithful_and_nothing_else() -> None:
    chosen = broker_policies(broker(Mode.FAITHFUL, "visible_end", "store.sync"))
    store = replace(HARDENED.store, sync=FAITHFUL.store.sync)
    assert chosen == replace(HARDENED, visible_end=FAITHFUL.visible_end, store=store)


def test_a_name_in_two_tables() -> None:
    chosen = broker_policies(broker(Mode.FAITHFUL, "services.transactions.ends_once"))
    assert chosen.services.transactions.ends_once is False
    assert chosen.services.transactions.keeps_flag is True
    assert chosen.services.copies == HARDENED.services.copies


def test_hardened_mode_stays_hardened_whatever_is_named() -> None:
    assert broker_policies(broker(Mode.HARDENED, "visible_end")) is HARDENED


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"there is no policy 'store\.x'; there are: visible_end,"):
        broker_policies(broker(Mode.FAITHFUL, "store.x"))
    config = NameServerConfig(
        listen_host="10.0.0.1", mode=Mode.FAITHFUL, faithful_policies=("visible_end",)
    )
    with pytest.raises(ValueError, match="there are: slave_topics, leaves"):
        name_server_policies(config)


@pytest.mark.parametrize("table", [BROKER_POLICIES, NAME_SERVER_POLICIES])
def test_every_line_differs_between_the_modes(table: dict[Mode, object]) -> None:
    """A line that is the same in both is no policy."""

    def line(mode: Mode, name: str) -> object:
        value: object = table[mode]
        for part in name.split("."):
            value = getattr(value, part)
        return value

    names = policy_names(table[Mode.HARDENED])
    assert names == policy_names(table[Mode.FAITHFUL])
    same = [name for name in names if line(Mode.HARDENED, name) == line(Mode.FAITHFUL, name)]
    assert same == []
