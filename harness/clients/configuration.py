"""The first line of a client process, its configuration: name, group, name servers and behaviour."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from staticfire.checkers.op_kinds.fields import FLAG, LIST, NUMBER, OBJECT, TEXT, WHOLE, Kind
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS, PUSH
from staticfire.harness.clients.lines import LineError, check_fields, check_value
from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.queue_puller import FlowLimits
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.producer.producer import ProducerConfig
from staticfire.system_under_test.configuration.real_tls import RealTls, read_tls_options
from staticfire.system_under_test.runtime.env import TlsError, TlsMode

if TYPE_CHECKING:
    from staticfire.system_under_test.acl.signature import Credentials
    from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
    from staticfire.system_under_test.client.producer.producer import ProducerConfig
    from staticfire.system_under_test.configuration.real_tls import RealTls

Configuration = dict[str, Any]

NEEDED: Mapping[str, Kind] = {"group": TEXT, "client_id": TEXT, "name_servers": LIST}
COMMON: Mapping[str, Kind] = {
    "node": TEXT,
    "topic": TEXT,
    "credentials": OBJECT,
    "tls_config": TEXT,
}
PRODUCER: Mapping[str, Kind] = {
    "send_timeout_s": NUMBER,
    "retries": WHOLE,
    "try_timeout_s": NUMBER,
    "compress_over_bytes": WHOLE,
    "avoids_as_rocketmq": FLAG,
    "retries_weak": FLAG,
    "trace": FLAG,
}
ACCOUNTS: Mapping[str, Kind] = {"accounts": OBJECT}
LISTENING: Mapping[str, Kind] = {
    "delay_s": NUMBER,
    "failing_share": NUMBER,
    "failing_tries": WHOLE,
    "delay_level": WHOLE,
    "condensed": FLAG,
    "forward_to": TEXT,
    "process": WHOLE,
    "kind": TEXT,
    "share": LIST,
}
PROCESSES_MAX = 10**6  # bound of process numbers, which are in keys: p<process>-<n>
CONSUMER: Mapping[str, Kind] = {
    "expression": TEXT,
    "expression_type": TEXT,
    "more_topics": LIST,
    "consume_from": TEXT,
    "consume_timestamp_ms": WHOLE,
    "pull_batch": WHOLE,
    "consume_batch": WHOLE,
    "calls_per_queue": WHOLE,
    "limits": OBJECT,
    "ordered": FLAG,
    "broadcast": FLAG,
    "offset_folder": TEXT,
    "sends_back": FLAG,
    "reconsume_times_max": WHOLE,
    "suspend_s": NUMBER,
    "consume_timeout_s": NUMBER,
    "strategy": TEXT,
    "machine_rooms": LIST,
    "trace": FLAG,
    **LISTENING,
}
CONSUME_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
KEYS: Mapping[str, Kind] = {"access_key": TEXT, "secret_key": TEXT}
CREDENTIALS: Mapping[str, Kind] = {
    "access_key": TEXT,
    "secret_key": TEXT,
    "security_token": TEXT,
    "full_signature": FLAG,
}
LIMITS: Mapping[str, Kind] = {
    "count_max": WHOLE,
    "size_bytes_max": WHOLE,
    "span_max": WHOLE,
    "topic_count_max": WHOLE,
    "topic_size_bytes_max": WHOLE,
}


def configuration_of(
    config: ProducerConfig | ConsumerConfig, *, topic: str | None = None, **more: Any
) -> Configuration:
    """Return the first line for a client with this configuration.

    `topic` is the topic of a producer; `more` are other fields, such as `node`, `delay_s` and `failing_share`.
    """
    fields: Configuration = dataclasses.asdict(config)
    if topic is not None:
        fields["topic"] = topic
    if (credentials := fields["credentials"]) is not None:
        for name in ("security_token", "full_signature"):
            if not credentials[name]:
                del credentials[name]
    given = {name: value for name, value in fields.items() if value is not None}
    if limits := given.get("limits"):
        given["limits"] = {name: most for name, most in limits.items() if most is not None}
    return {**given, **more}


@dataclass(slots=True)
class Listening:
    """The faulty behaviour of a consumer's listener from its first message on."""

    delay_s: float = 0.0
    failing_share: float = 0.0
    failing_tries: int = 0  # failures of each message before it succeeds
    delay_level: int = 0  # requested delay level after a failure; 0: by the number of tries
    condensed: bool = False  # whether it reports deliveries as ranges of messages
    forward_to: str = ""  # the topic to which it forwards all messages
    process: int = (
        0  # the process number of this client in the history, for keys of forwarded messages
    )
    kind: str = PUSH  # kind of consumer
    share: tuple[int, int] = (0, 1)  # this member's index in its group, and the number of members


def check_producer(fields: Configuration) -> None:
    """Raises LineError for a wrong configuration of a producer."""
    _check(fields, NEEDED, {**COMMON, **PRODUCER, **ACCOUNTS})
    for name, keys in fields.get("accounts", {}).items():
        what = f"{name!r:.40} of 'accounts'"
        check_value(what, keys, OBJECT)
        _check(keys, KEYS if keys else {}, CREDENTIALS, what)


def check_consumer(fields: Configuration) -> Listening:
    """Raises LineError for a wrong configuration of a consumer."""
    _check(fields, {**NEEDED, "topic": TEXT}, {**COMMON, **CONSUMER})
    if fields.get("consume_from", CONSUME_FROM[0]) not in CONSUME_FROM:
        allowed = ", ".join(CONSUME_FROM)
        raise LineError(f"'consume_from' is {fields['consume_from']!r:.80}; allowed are {allowed}")
    _check(fields.get("limits", {}), {}, LIMITS, "'limits' of the configuration")
    for pair in fields.get("more_topics", []):
        if type(pair) is not list or [type(item) for item in pair] != [str, str]:
            raise LineError(f"'more_topics' holds {pair!r:.80}; expected pairs of topic and tags")
    if ("forward_to" in fields) != ("process" in fields):
        raise LineError("the configuration has only one of 'forward_to' and 'process'; give both")
    if not fields.get("forward_to", "-"):
        raise LineError("'forward_to' is empty; allowed is the name of a topic")
    if fields.get("forward_to") == fields["topic"]:
        what = f"'forward_to' is {fields['topic']!r:.80}, which it consumes"
        raise LineError(f"{what}; allowed is another topic")
    if not 0 <= fields.get("process", 0) < PROCESSES_MAX:
        what = f"'process' is {fields['process']}"
        raise LineError(f"{what}; allowed are 0 to {PROCESSES_MAX - 1}")
    _check_kind(fields)
    given = _given(fields, LISTENING)
    if "share" in given:
        given["share"] = _share(given["share"])
    return Listening(**given)


def _check_kind(fields: Configuration) -> None:
    """Raises LineError for an unknown kind, or one that cannot have the other options."""
    kind = fields.get("kind", PUSH)
    if kind not in CONSUMER_KINDS:
        raise LineError(f"'kind' is {kind!r:.80}; allowed are {', '.join(CONSUMER_KINDS)}")
    if kind == PUSH:
        return
    for name in ("ordered", "broadcast", "sends_back", "forward_to", "more_topics", "trace"):
        if fields.get(name):
            raise LineError(f"'kind' is {kind!r}, which cannot have {name!r}; allowed is {PUSH!r}")


def _share(share: list[Any]) -> tuple[int, int]:
    """Raises LineError."""
    if [type(number) for number in share] != [int, int] or not 0 <= share[0] < share[1]:
        what = "the place of the member, from 0 on, and the number of members"
        raise LineError(f"'share' is {share!r:.80}; expected {what}")
    return share[0], share[1]


def producer_config(fields: Configuration) -> ProducerConfig:
    """Raises LineError."""
    check_producer(fields)
    return ProducerConfig(**_client_fields(fields), **_given(fields, PRODUCER))


def consumer_config(fields: Configuration) -> tuple[ConsumerConfig, Listening]:
    """Raises LineError."""
    listening = check_consumer(fields)
    given = _given(fields, CONSUMER)
    for name in LISTENING:
        given.pop(name, None)
    if "consume_from" in given:
        given["consume_from"] = ConsumeFrom(given["consume_from"])
    if "limits" in given:
        given["limits"] = FlowLimits(**given["limits"])
    if "more_topics" in given:
        given["more_topics"] = tuple(map(tuple, given["more_topics"]))
    if "machine_rooms" in given:
        given["machine_rooms"] = tuple(given["machine_rooms"])
    try:
        config = ConsumerConfig(topic=fields["topic"], **_client_fields(fields), **given)
    except ValueError as error:
        raise LineError(f"the configuration cannot be: {error}") from None
    return config, listening


def check_admin(fields: Configuration) -> None:
    """Raises LineError for a wrong configuration of an administrator, whose requests name their nodes."""
    _check(fields, {}, {**NEEDED, **COMMON})


def _check(
    fields: Configuration,
    needed: Mapping[str, Kind],
    optional: Mapping[str, Kind],
    what: str = "the configuration",
) -> None:
    known = {**needed, **optional}
    for name in fields:
        if name not in known:
            raise LineError(f"{what} has {name!r:.80}; known are {', '.join(sorted(known))}")
    check_fields(what, fields, needed, optional)
    if "name_servers" in fields:
        _check_name_servers(fields["name_servers"])
    if "credentials" in fields:
        _check(fields["credentials"], KEYS, CREDENTIALS, "'credentials' of the configuration")


def _check_name_servers(addresses: list[Any]) -> None:
    if not addresses:
        raise LineError("'name_servers' of the configuration is empty; expected host:port, or more")
    for address in addresses:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
            raise LineError(f"the name server {address!r:.80} is not of the form host:port")


def _given(fields: Configuration, known: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in known if name in fields}


def _client_fields(fields: Configuration) -> dict[str, Any]:
    """Return the fields that producers and consumers share."""
    return {
        "group": fields["group"],
        "client_id": fields["client_id"],
        "name_servers": tuple(fields["name_servers"]),
        "credentials": credentials_of(fields),
    }


def tls_of(fields: Configuration) -> RealTls | None:
    """Return the TLS options from the client's properties file. Raises LineError for one that cannot be used."""
    if "tls_config" not in fields:
        return None
    try:
        path = fields["tls_config"]
        tls = RealTls(read_tls_options(path, mode=TlsMode.DISABLED, client_enabled=True))
        tls.check()
    except (ValueError, TlsError) as error:
        raise LineError(f"'tls_config' cannot be used: {error}") from None
    return tls


def credentials_of(fields: Configuration) -> Credentials | None:
    """Return the client's keys, if the configuration has any."""
    return Credentials(**fields["credentials"]) if "credentials" in fields else None
