"""Reads the history of a message from its message trace (RocketMQ: QueryMsgTraceByIdSubCommand)."""

from __future__ import annotations

from staticfire.system_under_test.admin import messages
from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.client.trace.trace_reading import TraceEvent, read_trace


async def of_message(
    admin: AdminClient, trace_topic: str, message_id: str, *, count_max: int
) -> tuple[list[TraceEvent], int]:
    """The events of the message with this unique id, in order of time, and the number of unreadable records.

    Args:
        count_max: most messages of the trace topic to read; each has the records of many messages.
    """
    found = await messages.by_key(admin, trace_topic, message_id, count_max=count_max)
    events: list[TraceEvent] = []
    unreadable = 0
    for message in found:
        those, bad = read_trace(messages.message_body(message).decode(errors="replace"))
        events += [event for event in those if event.message_id == message_id]
        unreadable += bad
    return sorted(events, key=lambda event: event.time_ms or 0), unreadable
