"""The second signature of our clients: what it covers, and brokers that require it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.acl.guard import AccessGuard, AclException
from staticfire.system_under_test.acl.signature import (
    Credentials,
    full_signature_of,
    make_signer,
    signature_of,
    signed_content,
)
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, RemotingClient, RemotingServer
from staticfire.system_under_test.runtime.real_env import make_env
from staticfire.system_under_test.store.folders import make_durable_folder
from tests.system_under_test.remoting.manual_loop import MemoryLog

PATH = "/plain_acl.yml"
ACCOUNTS = b"accounts: [{accessKey: rocketmq2, secretKey: '12345678', admin: true}]"
FULL = Credentials(access_key="rocketmq2", secret_key="12345678", full_signature=True)
PLAIN = Credentials(access_key="rocketmq2", secret_key="12345678")  # as Apache's clients sign
HOST = "10.0.0.9"


def make_guard(*, required: bool) -> AccessGuard:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda _: None)
    make_durable_folder(disk, "/")
    disk.open(PATH, create=True).pwrite(ACCOUNTS, 0)
    guard = AccessGuard(
        disk,
        PATH,
        BROKER_POLICIES[Mode.HARDENED].acl,
        MemoryLog(),
        lambda: 0,
        lambda _: "topic",
        requires_full_signature=required,
    )
    guard.load()
    return guard


def signed(credentials: Credentials, code: int = 200, **fields: str) -> RemotingCommand:
    request = RemotingCommand.request(code, fields, b"body")
    make_signer(credentials)(request)
    return request


def sign_as_apache_would(request: RemotingCommand) -> None:
    content = signed_content(request.ext_fields, request.body)
    request.ext_fields["Signature"] = signature_of(content, PLAIN.secret_key)


def test_a_recorded_signature() -> None:
    request = RemotingCommand.request(105, {"topic": "TopicTest", "AccessKey": "RocketMQ"}, b"hi")
    assert full_signature_of(request, "12345678") == "DBf83OWnC34lhju21b30zOCnRhEnlmumML5KjBccu3Y="


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        (201, {"a": "xy", "b": "z"}, b"body"),
        (200, {"a": "x", "b": "yz"}, b"body"),  # RocketMQ's signature is the same for both
        (200, {"a": "xy", "c": "z"}, b"body"),  # here, too
        (200, {"a": "xyz"}, b"body"),
        (200, {"a": "xy", "b": "z", "c": ""}, b"body"),
        (200, {"a": "xy", "b": ""}, b"zbody"),
        (200, {"a": "xy", "b": "z"}, b"bod"),
    ],
)
def test_another_request_has_another_signature(
    code: int, fields: dict[str, str], body: bytes
) -> None:
    request = RemotingCommand.request(200, {"a": "xy", "b": "z"}, b"body")
    other = RemotingCommand.request(code, fields, body)
    assert full_signature_of(request, "12345678") != full_signature_of(other, "12345678")


def test_only_clients_configured_to_sign_in_full() -> None:
    assert "FullSignature" not in signed(PLAIN).ext_fields
    request = signed(FULL, topic="T")
    given = request.ext_fields["FullSignature"]
    assert given == full_signature_of(request, FULL.secret_key)
    make_signer(FULL)(request)  # it is sent again
    assert request.ext_fields["FullSignature"] == given


@pytest.mark.parametrize(("required", "credentials"), [(False, PLAIN), (False, FULL), (True, FULL)])
def test_what_passes(required: bool, credentials: Credentials) -> None:
    make_guard(required=required).check(signed(credentials, topic="T"), HOST)


def test_rocketmqs_signature_alone_is_refused_where_more_is_required() -> None:
    guard = make_guard(required=True)
    with pytest.raises(AclException, match=r"^No FullSignature, which this broker requires$"):
        guard.check(signed(PLAIN, topic="T"), HOST)


@pytest.mark.parametrize("required", [False, True])
def test_a_captured_request_is_no_other_request(required: bool) -> None:
    guard = make_guard(required=required)
    captured = signed(FULL, RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    guard.check(captured, HOST)
    captured.code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    with pytest.raises(AclException, match="Check full signature failed for accessKey=rocketmq2"):
        guard.check(captured, HOST)


def test_rocketmqs_signature_lets_a_captured_request_be_another() -> None:
    """What the option is for."""
    guard = make_guard(required=False)
    captured = signed(PLAIN, RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    del captured.ext_fields["consumerGroup"]
    captured.ext_fields["groupName"] = "g"
    captured.code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    guard.check(captured, HOST)


def test_a_name_of_a_field_is_covered() -> None:
    request = signed(FULL, a="1", b="2")
    fields = request.ext_fields
    fields["c"] = fields.pop("b")
    sign_as_apache_would(request)  # its content is the same
    with pytest.raises(AclException, match="Check full signature failed"):
        make_guard(required=True).check(request, HOST)


@pytest.mark.parametrize(
    ("line", "full"), [("", False), ("fullSignature: true", True), ("fullSignature: false", False)]
)
def test_a_file_of_credentials(line: str, full: bool) -> None:
    text = f"accessKey: rocketmq2\nsecretKey: 12345678\n{line}\n"
    assert Credentials.from_text(text) == (FULL if full else PLAIN)


def test_a_file_with_another_value_is_refused() -> None:
    text = "accessKey: rocketmq2\nsecretKey: 12345678\nfullSignature: some\n"
    with pytest.raises(ValueError, match=r"^fullSignature is 'some'; true and false are allowed$"):
        Credentials.from_text(text)


def test_an_option_without_access_control_is_refused() -> None:
    with pytest.raises(ValueError, match="aclFullSignature is REQUIRED, but aclEnable is false"):
        BrokerConfig(broker_name="a", listen_host="127.0.0.1", acl_full_signature="REQUIRED")


@pytest.mark.parametrize(
    ("credentials", "code", "remark"),
    [
        (FULL, ResponseCode.SUCCESS, None),
        (PLAIN, ResponseCode.SYSTEM_ERROR, "No FullSignature, which this broker requires"),
    ],
)
def test_over_real_sockets(credentials: Credentials, code: int, remark: str | None) -> None:
    guard = make_guard(required=True)

    def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        guard.check(request, connection.remote_host)
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    async def run() -> RemotingCommand:
        env = make_env("node")
        server = RemotingServer(env, "127.0.0.1", 0, handle)
        client = RemotingClient(env, sign=make_signer(credentials))
        await server.start()
        try:
            request = RemotingCommand.request(200, {"topic": "T", "empty": ""}, b"body")
            return await client.invoke(f"127.0.0.1:{server.port}", request, 20.0)
        finally:
            await client.close()
            await server.stop()

    answer = asyncio.run(run())
    assert answer.code == code
    assert (answer.remark or "").endswith(remark or "")
