"""Signatures, patterns of addresses, accounts, and what the guard lets pass."""

from __future__ import annotations

import random
from typing import Any

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.acl.accounts import Accounts, BadAccounts
from staticfire.system_under_test.acl.addresses import BadPattern, make_matcher
from staticfire.system_under_test.acl.guard import AccessGuard, AclException, AclPolicy
from staticfire.system_under_test.acl.signature import (
    Credentials,
    make_signer,
    signature_of,
    signed_content,
)
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.folders import make_durable_folder
from tests.system_under_test.remoting.manual_loop import MemoryLog

HOST = "10.0.0.9"
PATH = "/store/config/plain_acl.yml"
Parts = tuple[int, dict[str, Any]]  # request code, arguments of Site.ask
ACCOUNTS = """
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.21
accounts:
- accessKey: RocketMQ
  secretKey: "12345678"
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  - groupA=DENY
- accessKey: rocketmq2
  secretKey: "12345678"
  whiteRemoteAddress: 192.168.1.*
  admin: true
"""
USER = Credentials(access_key="RocketMQ", secret_key="12345678")
ADMIN = Credentials(access_key="rocketmq2", secret_key="12345678")


def test_the_recorded_signature() -> None:
    content = signed_content({"topic": "TopicTest", "AccessKey": "RocketMQ"}, b"hi")
    assert content == b"RocketMQTopicTesthi"
    assert signature_of(content, "12345678") == "4FFNii/mJO1nEIhgXDnIXaOGnog="


@pytest.mark.parametrize(
    ("pattern", "white", "others"),
    [
        ("", [], [HOST]),
        ("*", [HOST, "::1"], []),
        ("10.0.0.9", [HOST], ["10.0.0.90", "110.0.0.9"]),
        ("10.0.0.8,10.0.0.9", [HOST, "10.0.0.8"], ["10.0.0.7"]),
        ("10.0.0.{8,9}", [HOST, "10.0.0.8"], ["10.0.0.7"]),
        ("10.0.0.*", [HOST, "10.0.0.255"], ["10.0.1.9", "::1"]),
        ("10.0.0-3.8-9", [HOST, "10.0.3.8"], ["10.0.4.8", "10.0.3.7"]),
        ("fe80::1", ["FE80::1"], [HOST]),
    ],
)
def test_addresses(pattern: str, white: list[str], others: list[str]) -> None:
    matches = make_matcher(pattern)
    assert [address for address in [*white, *others] if matches(address)] == white


@pytest.mark.parametrize("pattern", ["10.0.0", "10.0.0.300", "10.0.0.9-8", "10.0.x.1", "fe80::*"])
def test_patterns_that_match_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        make_matcher(pattern)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("accounts: 7", "a list is needed"),
        ("accounts: [7]", "is no account"),
        ("accounts: [{accessKey: short}]", "at least 7 characters"),
        ("accounts: [{accessKey: RocketMQ, secretKey: 123456}]", "secretKey of RocketMQ must be"),
        ("accounts: [{accessKey: RocketMQ, secretKey: [12345678]}]", "secretKey of RocketMQ must"),
        (ACCOUNTS.replace("admin: false", "admin: maybe"), "the admin of RocketMQ is 'maybe'"),
        ("- {", "no YAML"),
        ("7", "no accounts"),
        (ACCOUNTS.replace("topicA=DENY", "topicA=ALL"), "'ALL' is no permission"),
        (ACCOUNTS.replace("topicA=DENY", "topicA"), "name=PUB|SUB is the form"),
        (ACCOUNTS.replace("10.10.103.*", "10.10.103"), "3 parts"),
    ],
)
def test_accounts_that_cannot_be_meant_are_refused(text: str, refusal: str) -> None:
    with pytest.raises((BadAccounts, BadPattern), match=refusal.replace("|", r"\|")):
        Accounts.from_text(text)


def test_scalars_that_are_no_text_are_read_as_rocketmq_reads_them() -> None:
    as_shipped = Accounts.from_text(ACCOUNTS.replace('"12345678"', "12345678"))
    assert [account.secret_key for account in as_shipped.by_key.values()] == ["12345678"] * 2
    numbers = Accounts.from_text(
        "accounts: [{accessKey: 87654321, secretKey: 1234567.5, admin: 1}]"
    )
    assert (numbers.by_key["87654321"].secret_key, numbers.by_key["87654321"].is_admin) == (
        "1234567.5",
        True,
    )
    tools = Credentials.from_text("accessKey: rocketmq2\nsecretKey: 12345678\n")
    assert tools == ADMIN


def test_an_account_whose_key_is_a_number_can_be_changed_and_deleted() -> None:
    accounts = Accounts.from_text("accounts: [{accessKey: 87654321, secretKey: 12345678}]")
    change = {"accessKey": "87654321", "admin": True}
    changed = accounts.with_account(change, now_ms=7)
    assert [account.is_admin for account in changed.by_key.values()] == [True]
    assert not changed.without_account("87654321", now_ms=8).by_key


class Site:
    """A guard and its disk."""

    def __init__(self, mode: Mode = Mode.HARDENED) -> None:
        self.now_ns = 10**9
        self.log = MemoryLog()
        self.disk = SimDisk(
            random=random.Random(1), now_ns=lambda: self.now_ns, charge=lambda _: None
        )
        make_durable_folder(self.disk, "/store/config")
        self.write(ACCOUNTS)
        policy: AclPolicy = BROKER_POLICIES[mode].acl
        self.guard = AccessGuard(self.disk, PATH, policy, self.log, lambda: 7, topic_at)
        self.guard.load()

    def write(self, text: str) -> None:
        self.now_ns += 10**9
        file = self.disk.open(PATH, create=True)
        file.truncate(0)
        file.pwrite(text.encode(), 0)
        file.close()

    def ask(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        who: Credentials | None = USER,
        host: str = HOST,
        body: bytes = b"",
    ) -> None:
        """Raises AclException if the request may not pass."""
        request = RemotingCommand.request(code, ext, body)
        if who is not None:
            make_signer(who)(request)
        self.guard.check(request, host)


def topic_at(offset: int) -> str:
    """A log with four messages, one of them a copy for a retry."""
    topics = ["topicA", "topicB", "topicC", "%RETRY%g"]
    if not 0 <= offset < len(topics):
        raise ValueError(f"no message begins at offset {offset}")
    return topics[offset]


def heartbeat(group: str, topic: str) -> bytes:
    consumer = {"groupName": group, "subscriptionDataSet": [{"topic": topic}]}
    return json_dialect.dumps({"clientID": "c", "consumerDataSet": [consumer]})


@pytest.mark.parametrize(
    ("code", "request_parts"),
    [
        (10, {"ext": {"topic": "topicB"}}),
        (310, {"ext": {"b": "topicB"}}),
        (320, {"ext": {"b": "topicB"}}),
        (11, {"ext": {"topic": "topicC", "consumerGroup": "g"}}),
        (12, {"ext": {"topic": "topicC"}}),
        (34, {"body": heartbeat("g", "topicC")}),
        (38, {"ext": {"consumerGroup": "g"}}),
        (30, {"ext": {"topic": "topicA"}}),  # nothing is needed to ask for an offset
        (17, {"who": ADMIN}),
        (310, {"who": ADMIN, "ext": {"b": "anything"}}),
        (310, {"who": None, "ext": {"b": "topicA"}, "host": "10.10.103.7"}),
        (310, {"who": ADMIN, "ext": {"b": "topicA", "Signature": "bad"}, "host": "192.168.1.3"}),
    ],
)
def test_what_may_pass(code: int, request_parts: dict[str, Any]) -> None:
    Site().ask(code, **request_parts)


@pytest.mark.parametrize(
    ("code", "request_parts", "refusal"),
    [
        (310, {"who": None, "ext": {"b": "topicB"}}, "No accessKey is configured"),
        (
            310,
            {"who": Credentials(access_key="nobody", secret_key="x")},
            "No acl config for nobody",
        ),
        (
            310,
            {"who": Credentials(access_key="RocketMQ", secret_key="x")},
            "Check signature failed",
        ),
        (310, {"ext": {"b": "topicA"}}, "No permission for topicA"),
        (310, {"ext": {"b": "topicC"}}, "No permission for topicC"),
        (310, {"ext": {"b": "other"}}, "No default permission for other"),
        (320, {"ext": {"b": "topicA"}}, "No permission for topicA"),
        (10, {"ext": {"topic": "topicA"}}, "No permission for topicA"),
        (11, {"ext": {"topic": "topicC", "consumerGroup": "groupA"}}, "%RETRY%groupA"),
        (15, {"ext": {"topic": "topicA", "consumerGroup": "g"}}, "No permission for topicA"),
        (34, {"body": heartbeat("groupA", "topicC")}, "%RETRY%groupA"),
        (34, {"body": heartbeat("g", "topicA")}, "topicA"),
        (35, {"ext": {"consumerGroup": "groupA"}}, "%RETRY%groupA"),
        (17, {}, "Need admin permission for request code=17"),
        (50, {}, "Need admin permission for request code=50"),
    ],
)
def test_what_may_not(code: int, request_parts: dict[str, Any], refusal: str) -> None:
    with pytest.raises(AclException, match=refusal):
        Site().ask(code, **request_parts)


@pytest.mark.parametrize("field", ["topic", "AccessKey"])
def test_a_changed_field_breaks_the_signature(field: str) -> None:
    request = RemotingCommand.request(10, {"topic": "topicB"}, b"hi")
    make_signer(USER)(request)
    request.ext_fields[field] = {"topic": "topicC", "AccessKey": "rocketmq2"}[field] + "x"
    with pytest.raises(AclException):
        Site().guard.check(request, HOST)


def view(offset: int) -> Parts:
    return 33, {"ext": {"offset": f"{offset}"}}


def send_back(offset: int, group: str = "g") -> Parts:
    ext = {"offset": f"{offset}", "group": group, "delayLevel": "0", "originTopic": "topicB"}
    return 36, {"ext": ext}


def end_transaction(offset: int) -> Parts:
    ext = {"producerGroup": "p", "tranStateTableOffset": "0", "msgId": "m"}
    return 37, {"ext": ext | {"commitLogOffset": f"{offset}", "commitOrRollback": "8"}}


def consume_directly(offset: int, group: str = "g") -> Parts:
    return 309, {"ext": {"consumerGroup": group, "msgId": f"0A00000100002A9F{offset:016X}"}}


def lock(code: int, topic: str, group: str = "g") -> Parts:
    queue = {"topic": topic, "brokerName": "b", "queueId": 0}
    body = {"consumerGroup": group, "clientId": "c", "mqSet": [queue]}
    return code, {"body": json_dialect.dumps(body)}


@pytest.mark.parametrize(
    ("code", "request_parts"),
    [
        *(view(offset) for offset in (1, 2, 3)),
        *(send_back(offset) for offset in (1, 2, 3)),
        end_transaction(1),
        *(consume_directly(offset) for offset in (1, 2, 3)),
        lock(41, "topicC"),
        lock(42, "topicC"),
        (33, {"who": ADMIN, "ext": {"offset": "0"}}),
        (33, {"who": ADMIN, "ext": {"offset": "9"}}),  # there is none, which its handler says
    ],
)
def test_rights_on_the_topic_of_a_message_suffice(code: int, request_parts: dict[str, Any]) -> None:
    Site().ask(code, **request_parts)


@pytest.mark.parametrize(
    ("code", "request_parts", "refusal"),
    [
        (*view(0), "No permission for topicA"),
        (*view(9), "no message begins at offset 9"),
        (*send_back(0), "No permission for topicA"),
        (*send_back(1, "groupA"), "No permission for %RETRY%groupA"),
        (*end_transaction(0), "No permission for topicA"),
        (*end_transaction(2), "No permission for topicC"),  # it may only read there
        (*consume_directly(0), "No permission for topicA"),
        (*consume_directly(1, "groupA"), "No permission for %RETRY%groupA"),
        (*lock(41, "topicA"), "No permission for topicA"),
        (*lock(41, "topicC", "groupA"), "No permission for %RETRY%groupA"),
        (*lock(42, "topicA"), "No permission for topicA"),
        (*lock(42, "topicC", "groupA"), "No permission for %RETRY%groupA"),
    ],
)
def test_messages_named_by_their_place_need_rights_on_their_topic(
    code: int, request_parts: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ValueError, match=refusal):
        Site().ask(code, **request_parts)
    if (code, refusal) != (36, "No permission for %RETRY%groupA"):
        Site(Mode.FAITHFUL).ask(code, **request_parts)


@pytest.mark.parametrize("code", [33, 36, 37, 41, 42, 309])
def test_a_request_that_does_not_say_what_it_wants_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=r"field .* is missing|7 is not an object"):
        Site().ask(code, body=b"7")


@pytest.mark.parametrize(
    ("rights", "suffice"),
    [
        ("", True),
        ("  topicPerms: [topicA=SUB|PUB]", True),
        ("  topicPerms: [topicA=SUB]", False),
        ("  topicPerms: [topicA=DENY]", False),
        ("  groupPerms: [groupA=DENY]", False),
        ("  defaultGroupPerm: SUB", False),
    ],
)
def test_for_an_account_with_all_rights_no_message_is_read(rights: str, suffice: bool) -> None:
    site = Site()
    account = "- accessKey: RocketMQ\n  secretKey: '12345678'\n  defaultTopicPerm: PUB|SUB"
    if "defaultGroupPerm" not in rights:
        account += "\n  defaultGroupPerm: PUB|SUB"
    site.write(f"accounts:\n{account}\n{rights}\n")
    site.guard.load()
    if suffice:
        site.ask(33, {"offset": "9"})
        return
    with pytest.raises(ValueError, match="no message begins at offset 9"):
        site.ask(33, {"offset": "9"})


def test_accounts_may_change_accounts_in_faithful_mode() -> None:
    Site(Mode.FAITHFUL).ask(50)
    with pytest.raises(AclException, match="Need admin permission"):
        Site().ask(50)


def test_javas_signature_of_a_query_by_unique_key_is_forgiven_in_hardened_mode() -> None:
    request = RemotingCommand.request(12, {"topic": "topicC", "_UNIQUE_KEY_QUERY": "true"})
    request.ext_fields["AccessKey"] = USER.access_key
    content = signed_content(request.ext_fields, b"")
    request.ext_fields["Signature"] = signature_of(content, USER.secret_key)
    Site().guard.check(request, HOST)
    with pytest.raises(AclException, match="Check signature failed"):
        Site(Mode.FAITHFUL).guard.check(request, HOST)


def test_a_changed_file_is_read_and_a_broken_one_is_not() -> None:
    site = Site()
    site.write(ACCOUNTS.replace("topicA=DENY", "topicA=PUB"))
    site.guard.reload()
    site.ask(310, {"b": "topicA"})
    site.write("accounts: 7")
    site.guard.reload()
    site.ask(310, {"b": "topicA"})
    assert [event for level, event, _ in site.log.events if level == "error"] == [
        "accounts not read"
    ]


def test_a_missing_file_is_refused_at_the_start() -> None:
    site = Site()
    site.disk.unlink(PATH)
    with pytest.raises(StoreError, match=r"plain_acl\.yml cannot be used"):
        site.guard.load()


def test_accounts_survive_a_power_cut() -> None:
    site = Site()
    change = {"accessKey": "somebody", "secretKey": "87654321", "admin": True}
    site.guard.replace(lambda accounts, now_ms: accounts.with_account(change, now_ms=now_ms))
    site.guard.replace(lambda accounts, now_ms: accounts.without_account("RocketMQ", now_ms=now_ms))
    site.guard.replace(lambda accounts, now_ms: accounts.with_global_white(["*"], now_ms=now_ms))
    site.disk.power_cut()
    site.disk.power_on()
    site.guard.load()
    accounts = site.guard.accounts
    assert list(accounts.by_key) == ["rocketmq2", "somebody"]
    assert accounts.version.counter == 3
    site.ask(310, {"b": "topicA"}, who=None)
