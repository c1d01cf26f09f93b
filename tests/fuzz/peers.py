"""Strategies: what peers may send to a port, from noise to requests that are almost right."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields, is_dataclass, replace

from hypothesis import strategies as st

from staticfire.system_under_test.acl.signature import Credentials, make_signer
from staticfire.system_under_test.protocol import headers, headers_admin
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import wire_name
from tests.fuzz.fuzzed_nodes import ADMIN, TOPIC, VISITOR, Conversation
from tests.support.hostile_peers import frame

NAMES = st.sampled_from(
    [
        "Fuzzed",
        TOPIC,
        "%RETRY%g",
        "%DLQ%g",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "TBW102",
        "g",
        "",
        "@",
        "x" * 200,
    ]
)
NUMBERS = st.one_of(
    st.integers(-2, 40),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 10**30]),
)
VALUES = st.one_of(
    NAMES,
    NUMBERS.map(str),
    st.sampled_from(
        [
            "true",
            "false",
            "*",
            "TagA||TagB",
            "TAG",
            "SQL92",
            "a > 1",
            "UNIQ_KEY\x01k\x02KEYS\x01a b\x02",
            "DELAY\x013\x02",
            "TRAN_MSG\x01true\x02PGROUP\x01g\x02",
        ]
    ),
    st.text(max_size=20),
)


def _fields() -> list[str]:
    """Every name that any header of the protocol has."""
    modules = (headers, headers_admin)
    known = [one for module in modules for one in vars(module).values()]
    named = [one for one in known if isinstance(one, type) and is_dataclass(one)]
    accounts = {"accessKey", "secretKey", "admin", "topicPerms", "groupPerms", "globalWhiteAddrs"}
    wire = {wire_name(field) for one in named for field in fields(one)}
    return sorted(wire | accounts | set("abcdefghijklmn"))


def _json(value: object) -> bytes:
    return json.dumps(value).encode("utf-8", "replace")


JSON_BODIES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, VALUES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["clientID", "clientId", "consumerDataSet", "producerDataSet", "groupName", "subscriptionDataSet",
                 "topic", "subString", "consumerGroup", "mqSet", "brokerName", "queueId", "topicConfigSerializeWrapper",
                 "topicConfigTable", "dataVersion", "filterServerList", "retryMaxTimes", "group", "subscriptionData",
                 "consumeType", "messageModel", "consumeFromWhere", "subVersion", "offsetTable", "counter", "timestamp"]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)  # fmt: skip
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    JSON_BODIES.map(_json),
    st.text(max_size=30).map(str.encode),
    st.binary(max_size=40).map(zlib.compress),
    JSON_BODIES.map(_json).map(zlib.compress),
    st.lists(st.tuples(NAMES, VALUES), max_size=3).map(
        lambda pairs: "\n".join(f"{name}={value}" for name, value in pairs).encode(
            "utf-8", "replace"
        )
    ),
    st.binary(max_size=30).map(lambda body: (len(body) + 20).to_bytes(4, "big") + body),
)
CODES = st.one_of(st.sampled_from(sorted(RequestCode)).map(int), st.integers(-1, 400))


@st.composite
def requests(draw: st.DrawFn) -> RemotingCommand:
    """A well-formed request whose fields and body may be anything."""
    field_names = draw(st.lists(st.sampled_from(_FIELDS), max_size=16, unique=True))
    ext = {name: draw(VALUES) for name in field_names}
    return RemotingCommand.request(draw(CODES), ext, body=draw(BODIES))


@st.composite
def complete_requests(draw: st.DrawFn) -> RemotingCommand:
    """Every field that any request may need, each with a value that has the right shape or is not far from it."""
    numbers = draw(st.lists(NUMBERS, min_size=1, max_size=4))
    names = draw(st.lists(NAMES, min_size=1, max_size=3))
    properties = draw(st.lists(VALUES, max_size=2))
    choices = [*map(str, numbers), *names, *properties]
    ext = {name: choices[draw(st.integers(0, len(choices) - 1))] for name in _FIELDS}
    return RemotingCommand.request(draw(CODES), ext, body=draw(BODIES))


@st.composite
def broken(draw: st.DrawFn, whole: bytes) -> bytes:
    """A frame with some bytes changed."""
    raw = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw)


_FIELDS = _fields()
NO_REQUESTS = st.one_of(
    st.binary(max_size=80),
    st.binary(max_size=60).map(frame),
    JSON_BODIES.map(lambda body: frame(_json(body))),
)
SIGNERS = (
    None,
    VISITOR,
    ADMIN,
    replace(VISITOR, secret_key="guessed"),
    replace(ADMIN, secret_key="guessed"),
)
# It opens the ports to addresses, as it should.
NOT_FOR_ADMINISTRATORS = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG


def _harmless(request: RemotingCommand) -> RemotingCommand | None:
    """What an administrator may send without a right to harm the topic that must stay as it is."""
    if request.code == NOT_FOR_ADMINISTRATORS:
        return None
    ext = {name: value.replace(TOPIC, "Fuzzed") for name, value in request.ext_fields.items()}
    body = request.body.replace(TOPIC.encode(), b"Fuzzed")
    return RemotingCommand.request(request.code, ext, body=body)


@st.composite
def frames(draw: st.DrawFn, signer: Credentials | None) -> bytes:
    """A request that is signed, whole or broken, or bytes that are none."""
    if draw(st.integers(0, 4)) == 0:
        return draw(NO_REQUESTS)
    request: RemotingCommand | None = draw(st.one_of(requests(), complete_requests()))
    assert request is not None
    if signer == ADMIN:
        request = _harmless(request)
    if request is None:
        return b""
    if signer is not None:
        make_signer(signer)(request)
    whole = bytes(request.encode())
    return draw(broken(whole)) if draw(st.integers(0, 3)) == 0 else whole


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Of a peer with an account or without; mostly by TLS, which the ports demand."""
    signer = draw(st.sampled_from(SIGNERS))
    chunks = draw(st.lists(frames(signer), min_size=1, max_size=6))
    by_tls = draw(st.integers(0, 7)) != 0
    return Conversation(chunks, by_tls=by_tls, is_admin=signer == ADMIN)


CONVERSATIONS = conversations()
