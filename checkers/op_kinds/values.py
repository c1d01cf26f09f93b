"""Types of the values of ops in a history: reports, sends and the answer to a send. `make docs` makes it.

The kinds of op declare them. The rows of a list are lists, each with the items that its kind names.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class OpenReport(TypedDict):
    """The `report` of `open`."""

    group: NotRequired[str]
    topic: NotRequired[str]
    expression: NotRequired[str]
    model: NotRequired[str]
    orderly: NotRequired[bool]


class AssignReport(TypedDict):
    """The `report` of `assign`."""

    group: str
    topic: str
    queues: list[list[Any]]
    from_beginning: NotRequired[bool]


class CommitReport(TypedDict):
    """The `report` of `commit`."""

    group: str
    topic: str
    offsets: list[list[Any]]


class ConsumeReport(TypedDict):
    """The `report` of `consume`."""

    group: str
    topic: str
    broker: str
    queue: int
    messages: list[list[Any]]


class ConsumeManyReport(TypedDict):
    """The `report` of `consume_many`."""

    group: str
    topic: str
    broker: str
    queue: int
    ranges: list[list[Any]]


class ReplyReport(TypedDict):
    """The `report` of `reply`."""

    group: str
    topic: str
    key: str
    properties: NotRequired[int]


class SendBackReport(TypedDict):
    """The `report` of `send_back`."""

    group: str
    topic: str
    broker: str
    queue: int
    messages: list[list[Any]]
    copied: NotRequired[bool]
    code: NotRequired[int | None]
    attempts: NotRequired[int]


class ForwardReport(TypedDict):
    """The `report` of `forward`."""

    group: str
    topic: str
    broker: str
    queue: int
    originals: list[list[Any]]
    key: str


class BeginReport(TypedDict):
    """The `report` of `begin`."""

    group: str
    topic: str
    broker: str
    queue: int
    offset: NotRequired[int | None]
    broker_id: NotRequired[int]


class CommitToReport(TypedDict):
    """The `report` of `commit_to`."""

    group: str
    brokers: list[list[Any]]


class SendResult(TypedDict):
    """The `result` of `send`."""

    broker: str
    queue: int
    queue_offset: int
    physical_offset: NotRequired[int]
    status: NotRequired[str]
    attempts: NotRequired[int]
    id: NotRequired[int]


SendValue = TypedDict(
    "SendValue",
    {
        "key": str,
        "account": NotRequired[str],
        "answers": NotRequired[list[str]],
        "async": NotRequired[bool],
        "attempts": NotRequired[int],
        "batch": NotRequired[int],
        "broker": NotRequired[str],
        "check_after_s": NotRequired[int],
        "code": NotRequired[int],
        "delay_level": NotRequired[int],
        "delay_ms": NotRequired[int],
        "end_sent": NotRequired[bool],
        "half_physical_offset": NotRequired[int],
        "half_queue_offset": NotRequired[int],
        "id": NotRequired[int],
        "illegal": NotRequired[str],
        "one_way": NotRequired[bool],
        "padding": NotRequired[int],
        "physical_offset": NotRequired[int],
        "properties": NotRequired[dict[str, str]],
        "queue": NotRequired[int],
        "queue_offset": NotRequired[int],
        "refused_by": NotRequired[str | None],
        "reply": NotRequired[str],
        "reply_properties": NotRequired[int],
        "sharding_key": NotRequired[str],
        "size": NotRequired[int],
        "state": NotRequired[str],
        "status": NotRequired[str],
        "stored_at": NotRequired[int],
        "tag": NotRequired[str],
        "timeout_s": NotRequired[int | float],
        "topic": NotRequired[str],
        "transaction": NotRequired[str],
    },
)


class SendManyValue(TypedDict):
    """The value of `send_many` in a history."""

    key: str
    attempts: NotRequired[int]
    broker: NotRequired[str]
    count: NotRequired[int]
    id: NotRequired[int]
    physical_offset: NotRequired[int]
    queue: NotRequired[int]
    ranges: NotRequired[list[list[Any]]]
    size: NotRequired[int]
    status: NotRequired[str]
    topic: NotRequired[str]


class CheckBackReport(TypedDict):
    """The `report` of `check_back`."""

    topic: str
    key: str
    state: str
    times: NotRequired[int]
    broker: NotRequired[str]


class ProbeReport(TypedDict):
    """The `report` of `probe`."""

    broker: str


class DrainReport(TypedDict):
    """The `report` of `drain`."""

    group: str
    topic: str
    queues: list[list[Any]]
    lag: int
    still_s: NotRequired[int]


class LookUpReport(TypedDict):
    """The `report` of `look_up`."""

    topic: str
    broker: str
    indexed: bool
    messages: list[list[Any]]
    node: NotRequired[str]
    asked: NotRequired[int]
    first_offsets: NotRequired[list[list[Any]]]
    torn: NotRequired[list[list[Any]]]
    refused: NotRequired[list[list[Any]]]
    searched: NotRequired[list[list[Any]]]
    search_error: NotRequired[str | None]


class TryReadReport(TypedDict):
    """The `report` of `try_read`."""

    group: str
    topic: str
    broker: str
    queue: int


class AnswerReport(TypedDict):
    """The `report` of `answer`."""

    topic: str
    key: str
    reply: str
    properties: NotRequired[int]


class RefusedReport(TypedDict):
    """The `report` of `refused`."""

    topic: str
    key: str
    illegal: str
    code: int
    broker: NotRequired[str | None]


class TxnReport(TypedDict):
    """The `report` of `txn`."""

    mops: list[Any]
