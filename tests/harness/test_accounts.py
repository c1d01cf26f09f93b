"""Access control of campaigns: the accounts of brokers, and the known rights of the guest."""

from __future__ import annotations

from collections import defaultdict

import pytest

from staticfire.faults.kinds.rights_change import RightsChange
from staticfire.harness.accounts import (
    ACCOUNTS,
    ACCOUNTS_FILE,
    CREDENTIALS_FILE,
    GUEST,
    GUEST_KEY,
    LOAD,
    OPERATOR,
    REFUSED,
    GuestRights,
)
from staticfire.harness.campaign.campaign import LATER_OPTIONS, CampaignError
from staticfire.harness.campaign.file import read_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.targets.own_cluster import OwnCluster, write_missing
from staticfire.system_under_test.acl.accounts import Accounts
from staticfire.system_under_test.acl.permissions import Need, Permission
from staticfire.system_under_test.acl.signature import Credentials
from tests.support.disks import make_disk

TO_SEND = Need(resource="T", permission=Permission.PUB)
TO_CONSUME = Need(resource="T", permission=Permission.SUB)


def test_the_file_of_brokers_gives_each_account_its_rights() -> None:
    known = Accounts.from_text(ACCOUNTS_FILE.decode()).by_key
    rights = {
        key: (account.is_admin, account.allows(TO_SEND), account.allows(TO_CONSUME))
        for key, account in known.items()
    }
    assert rights == {
        OPERATOR["access_key"]: (True, False, False),
        LOAD["access_key"]: (False, True, True),
        GUEST_KEY: (False, True, False),
        ACCOUNTS["reader"]["access_key"]: (False, False, True),
    }
    assert known[GUEST_KEY].secret_key == ACCOUNTS[GUEST]["secret_key"]
    assert Credentials.from_text(CREDENTIALS_FILE.decode()) == Credentials(**OPERATOR)


def test_those_to_be_refused_have_a_wrong_key_or_no_right_to_send() -> None:
    known = Accounts.from_text(ACCOUNTS_FILE.decode()).by_key
    for name in REFUSED.values():
        keys = ACCOUNTS[name]
        account = known.get(keys.get("access_key", ""))
        is_right = account is not None and account.secret_key == keys["secret_key"]
        assert account is None or not is_right or not account.allows(TO_SEND)


@pytest.mark.slow
def test_one_seed_in_ten_has_access_control() -> None:
    drawn = [draw_campaign(seed, {}) for seed in range(200)]
    assert 10 <= sum(campaign.acl for campaign in drawn) <= 30
    assert "acl" in LATER_OPTIONS
    without = [draw_campaign(seed, {"acl": False}) for seed in range(200)]
    for one, other in zip(drawn, without, strict=True):
        rest = tuple(planned for planned in one.plan if planned.kind != RightsChange.name)
        assert [each.at_s for each in rest] == [each.at_s for each in other.plan]


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [{"gap_max_s": 5.0}, {"target": "apache", "environment": "processes"}],
)
def test_none_where_gaps_are_measured_or_brokers_are_not_ours(given: dict[str, object]) -> None:
    assert not any(draw_campaign(seed, given).acl for seed in range(100))


def test_access_control_survives_being_written_down() -> None:
    campaign = draw_campaign(1, {"acl": True})
    assert RightsChange.name in [planned.kind for planned in campaign.plan]
    options = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == campaign


def test_what_cannot_be_is_refused_in_one_sentence() -> None:
    apache = {"target": "apache", "environment": "processes", "acl": True}
    with pytest.raises(CampaignError, match="acl is True; allowed: false with --target apache"):
        draw_campaign(1, apache)
    properties = (("aclEnable", "true"),)
    with pytest.raises(CampaignError, match="aclEnable is 'true'; allowed: none; the option acl"):
        draw_campaign(1, {"broker_properties": properties})
    row = 'id = 0\nkind = "rights-change"\nat_s = 1\nduration_s = 2\ntargets = []'
    plan = read_options(f"[campaign]\nacl = false\n[[campaign.plan]]\n{row}", "the file")
    with pytest.raises(CampaignError, match=r"\(rights-change\) needs accounts, and acl is false"):
        draw_campaign(1, plan)


@pytest.mark.parametrize("acl", [True, False])
def test_every_node_gets_its_keys(acl: bool) -> None:
    campaign = draw_campaign(1, {"acl": acl})
    cluster = OwnCluster(campaign, defaultdict(lambda: "10.0.0.1"))
    node = campaign.topology().replicas[0]
    broker = cluster.broker_config(node, ["ns-1"])
    files = cluster.account_files(node.node)
    reported = {broker.acl_path, broker.acl_credentials_path}
    load = Credentials(**LOAD) if acl else None
    assert broker.acl_enable is acl
    assert reported == (set(files) if acl else {None})
    assert cluster.producer_config("producer-1", ["ns-1"]).credentials == load
    assert cluster.consumer_config("consumer-1", ["ns-1"]).credentials == load
    assert cluster.operator == (Credentials(**OPERATOR) if acl else None)


def test_a_file_that_a_broker_has_changed_is_left_alone() -> None:
    storage = make_disk()
    write_missing(storage, {"/accounts/a": b"first", "/accounts/b": b"first"})
    write_missing(storage, {"/accounts/a": b"second", "/accounts/c": b"second"})
    held = {path: storage.open(path).pread(9, 0) for path in ("/accounts/a", "/accounts/c")}
    assert held == {"/accounts/a": b"first", "/accounts/c": b"second"}


def test_nothing_is_known_of_a_right_that_was_once_given_back() -> None:
    rights = GuestRights()
    assert not rights.are_withdrawn
    rights.withdrawn()
    assert rights.are_withdrawn
    rights.give_back()
    assert not rights.are_withdrawn
    rights.withdrawn()
    assert not rights.are_withdrawn
