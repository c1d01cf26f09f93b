"""`staticfire admin`: message trace."""

from __future__ import annotations

from dataclasses import asdict

from staticfire.harness.cli.admin.answers import Answer, Table, time_text
from staticfire.harness.cli.admin.command import admin_command, int_option, text_option
from staticfire.system_under_test.admin import AdminClient, traces
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.client.producer.tracing import TRACE_TOPIC
from staticfire.system_under_test.client.trace.trace_reading import TraceEvent

COLUMNS = ("kind", "time", "group", "status", "costMs", "tries", "topic", "broker", "requestId")


@admin_command(
    "queryMsgTraceById",
    "Show the trace of a message: sent, consumed, transaction ended.",
    "-i 7F00000100002A9F0000000000000000",
    text_option("-i", "--msgId", "message_id", "Unique message id.", required=True),
    text_option("-t", "--traceTopic", "trace_topic", "Topic with the traces.", default=TRACE_TOPIC),
    int_option(
        "-c", "--maxNum", "count", "Number of trace messages to read.", low=1, high=64, default=64
    ),
)
async def query_msg_trace_by_id(
    admin: AdminClient, message_id: str, trace_topic: str, count: int
) -> Answer:
    events, unreadable = await traces.of_message(admin, trace_topic, message_id, count_max=count)
    if not events:
        raise AdminError(
            f"{trace_topic!r} has no trace of a message with the id {message_id!r:.80}; only clients with "
            "tracing switched on write one"
        )
    note = f"{unreadable} records cannot be read" if unreadable else ""
    rows = [_row(event) for event in events]
    return Table(COLUMNS, rows, note=note, document=[asdict(event) for event in events])


def _row(event: TraceEvent) -> tuple[object, ...]:
    status = f"{event.status}, asked for" if event.from_check else event.status
    return (
        event.kind,
        time_text(event.time_ms or 0),
        event.group,
        status,
        event.cost_ms,
        event.retry_times,
        event.topic,
        event.broker,
        event.request_id,
    )


COMMANDS = (query_msg_trace_by_id,)
