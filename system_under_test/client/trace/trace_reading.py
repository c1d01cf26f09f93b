"""Parses the records of message trace (RocketMQ: TraceDataDecoder). `trace_records` writes them."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.client.trace.trace_records import (
    FIELD_END,
    RECORD_END,
    ContextCode,
)

NULL = "null"  # an unknown value


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One record. Fields that its kind does not have are None; times are ms since 1970.

    `status` is `sent` or `failed`, `begun`, how a listener ended, or the state of a transaction as sent to a broker.
    """

    kind: str  # Pub, SubBefore, SubAfter, EndTransaction
    message_id: str
    status: str
    time_ms: int | None = None
    region: str | None = None
    group: str | None = None
    topic: str | None = None
    tags: str | None = None
    keys: str | None = None
    broker: str | None = None
    client_host: str | None = None
    body_length: int | None = None
    cost_ms: int | None = None
    message_type: int | None = None
    offset_message_id: str | None = None
    request_id: str | None = None
    retry_times: int | None = None
    transaction_id: str | None = None
    from_check: bool | None = None


def read_trace(text: str) -> tuple[list[TraceEvent], int]:
    """The records of one message of the trace topic, and the number of unreadable records."""
    records = [record for record in text.split(RECORD_END) if record]
    events = []
    for record in records:
        try:
            events.append(_event(record.split(FIELD_END)))
        except (ValueError, IndexError):
            continue
    return events, len(records) - len(events)


def _event(fields: list[str]) -> TraceEvent:
    """Raises ValueError, IndexError."""
    match fields[0]:
        case "Pub":
            return _published(fields)
        case "SubBefore":
            return TraceEvent(
                kind=fields[0],
                time_ms=int(fields[1]),
                region=_known(fields[2]),
                group=_known(fields[3]),
                request_id=_known(fields[4]),
                message_id=fields[5],
                retry_times=int(fields[6]),
                keys=_known(fields[7]),
                status="begun",
            )
        case "SubAfter":
            return _consumed(fields)
        case "EndTransaction":
            return TraceEvent(
                kind=fields[0],
                time_ms=int(fields[1]),
                region=_known(fields[2]),
                group=_known(fields[3]),
                topic=_known(fields[4]),
                message_id=fields[5],
                tags=_known(fields[6]),
                keys=_known(fields[7]),
                broker=_known(fields[8]),
                message_type=int(fields[9]),
                transaction_id=_known(fields[10]),
                status=fields[11],
                from_check=_flag(fields[12]),
            )
    raise ValueError(f"a record of trace begins with {fields[0]!r:.40}")


def _published(fields: list[str]) -> TraceEvent:
    """Old clients write no offset message id (13 fields), new ones also their host (15)."""
    has_place = len(fields) > 13
    succeeded = _flag(fields[13] if has_place else fields[12])
    return TraceEvent(
        kind=fields[0],
        time_ms=int(fields[1]),
        region=_known(fields[2]),
        group=_known(fields[3]),
        topic=_known(fields[4]),
        message_id=fields[5],
        tags=_known(fields[6]),
        keys=_known(fields[7]),
        broker=_known(fields[8]),
        body_length=int(fields[9]),
        cost_ms=int(fields[10]),
        message_type=int(fields[11]),
        offset_message_id=_known(fields[12]) if has_place else None,
        status="sent" if succeeded else "failed",
        client_host=_known(fields[14]) if len(fields) > 14 else None,
    )


def _consumed(fields: list[str]) -> TraceEvent:
    """Old clients write only whether it succeeded, cloud clients neither time nor group."""
    code = ContextCode.SUCCESS if _flag(fields[4]) else ContextCode.FAILED
    if len(fields) > 6:
        code = ContextCode(int(fields[6]))
    has_group = len(fields) > 8
    return TraceEvent(
        kind=fields[0],
        request_id=_known(fields[1]),
        message_id=fields[2],
        cost_ms=int(fields[3]),
        keys=_known(fields[5]),
        status=code.name,
        time_ms=int(fields[7]) if has_group else None,
        group=_known(fields[8]) if has_group else None,
    )


def _known(text: str) -> str | None:
    return None if text in ("", NULL) else text


def _flag(text: str) -> bool:
    """Raises ValueError."""
    if text not in ("true", "false"):
        raise ValueError(f"{text!r:.40} is neither true nor false")
    return text == "true"
