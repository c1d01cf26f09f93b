"""OpenTelemetry spans: valid by its own schema, with its names of attributes."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from staticfire.harness.cli import status_of
from staticfire.harness.exports import otlp_file
from tests.harness.exports.conftest import Recorded, rewrite

KNOWN = {
    value
    for module in (messaging_attributes, error_attributes, server_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


def export(folder: Path, out: Path, *options: str) -> list[Any]:
    """The lines of the file as messages. OTLP writes ids in hexadecimal, where protobuf's JSON has base64."""
    assert status_of(["export", str(folder), "--otlp", str(out), *options]) == 0
    return [
        json_format.ParseDict(json.loads(line, object_hook=_with_base64), TracesData())
        for line in out.read_text().splitlines()
    ]


def _with_base64(found: dict[str, Any]) -> dict[str, Any]:
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        name: base64.b64encode(bytes.fromhex(value)).decode() if name in ids else value
        for name, value in found.items()
    }


def spans_of(lines: list[Any]) -> list[tuple[str, Any]]:
    """(service, span) of all lines."""
    return [
        (attributes(resource_spans.resource)["service.name"], span)
        for data in lines
        for resource_spans in data.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def attributes(holder: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        found = getattr(value, kind)
        return [plain(one) for one in found.values] if kind == "array_value" else found

    return {one.key: plain(one.value) for one in holder.attributes}


@pytest.fixture(scope="module")
def spans(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    return spans_of(export(recorded.folder, tmp_path_factory.mktemp("out") / "run.jsonl"))


def messages(spans: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [one for one in spans if "messaging.system" in attributes(one[1])]


def test_a_message_has_one_trace_with_its_send_as_the_root(
    recorded: Recorded, spans: list[tuple[str, Any]]
) -> None:
    traces: defaultdict[str, set[bytes]] = defaultdict(set)
    roots: dict[bytes, bytes] = {}
    for _, span in messages(spans):
        [key] = attributes(span)["messaging.rocketmq.message.keys"]
        traces[key].add(span.trace_id)
        if span.kind == Span.SPAN_KIND_PRODUCER:
            assert not span.parent_span_id
            roots[span.trace_id] = span.span_id
    assert set(traces) == recorded.sent("invoke")
    assert all(len(ids) == 1 for ids in traces.values())
    assert len({next(iter(ids)) for ids in traces.values()}) == len(traces)
    for _, span in messages(spans):
        if span.kind != Span.SPAN_KIND_PRODUCER:
            assert span.parent_span_id == roots[span.trace_id]


def test_ids_are_unique_and_times_are_in_order(spans: list[tuple[str, Any]]) -> None:
    ids = [span.span_id for _, span in spans]
    assert len(ids) == len(set(ids))
    for _, span in spans:
        assert len(span.trace_id) == 16
        assert len(span.span_id) == 8
        assert 1_700_000_000 * 10**9 < span.start_time_unix_nano <= span.end_time_unix_nano


def test_attributes_are_those_of_the_semantic_conventions(spans: list[tuple[str, Any]]) -> None:
    operations = {one.value for one in messaging_attributes.MessagingOperationTypeValues}
    types = {one.value for one in messaging_attributes.MessagingRocketmqMessageTypeValues}
    models = {one.value for one in messaging_attributes.MessagingRocketmqConsumptionModelValues}
    for service, span in messages(spans):
        found = attributes(span)
        assert {name for name in found if not name.startswith("staticfire.")} <= KNOWN
        assert found["messaging.system"] == "rocketmq"
        assert found["messaging.operation.type"] in operations
        assert found["messaging.client.id"] == service
        name = f"{found['messaging.operation.name']} {found['messaging.destination.name']}"
        assert span.name == name
        if span.kind == Span.SPAN_KIND_CONSUMER:
            assert found["messaging.consumer.group.name"] == "staticfire-group"
            assert found["messaging.rocketmq.consumption_model"] in models
        else:
            assert found["messaging.rocketmq.message.type"] in types


def test_sends_and_deliveries_are_those_of_the_history(
    recorded: Recorded, spans: list[tuple[str, Any]]
) -> None:
    counts: dict[int, int] = defaultdict(int)
    for _, span in messages(spans):
        counts[span.kind] += 1
        is_error = attributes(span).get("error.type") in ("fail", "info", "open")
        assert is_error == (span.status.code == Status.STATUS_CODE_ERROR)
    assert counts[Span.SPAN_KIND_PRODUCER] == len(recorded.sent("invoke"))
    assert counts[Span.SPAN_KIND_CONSUMER] == len(recorded.delivered())


def test_nodes_show_what_they_had_at_the_answer(spans: list[tuple[str, Any]]) -> None:
    names = {(service, span.name) for service, span in spans}
    assert ("broker-a-0", "on disk") in names
    assert ("broker-a-1", "on disk") in names


def test_faults_have_a_trace_of_their_own(recorded: Recorded, spans: list[tuple[str, Any]]) -> None:
    found = [span for service, span in spans if service == "staticfire"]
    assert sorted(one.name for one in found) == sorted(
        fault["kind"] for fault in recorded.faults if fault["struck_ns"] is not None
    )
    assert len({one.trace_id for one in found}) == 1


def test_a_key_keeps_one_trace(recorded: Recorded, tmp_path: Path) -> None:
    key = recorded.delivered()[5][1]
    spans = spans_of(export(recorded.folder, tmp_path / "one", "--key", key))
    keys = [attributes(span)["messaging.rocketmq.message.keys"] for _, span in messages(spans)]
    assert keys == [[key]] * len(keys)
    assert len(keys) >= 2


def test_names_may_hold_anything(damaged: Path, tmp_path: Path) -> None:
    name = "<script>\x1b[31m\n=cmd()"
    rewrite(damaged, "StaticfireTopic", name)
    spans = spans_of(export(damaged, tmp_path / "nasty"))
    assert name in {attributes(span)["messaging.destination.name"] for _, span in messages(spans)}


def test_a_line_holds_a_bounded_number_of_spans(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = spans_of(export(recorded.folder, tmp_path / "whole"))
    monkeypatch.setattr(otlp_file, "SPANS_MAX", 10)
    lines = export(recorded.folder, tmp_path / "in parts")
    parts = spans_of(lines)
    assert len(lines) == -(-len(parts) // 10)
    by_id = {span.span_id: span for _, span in whole}
    assert {span.span_id: span for _, span in parts} == by_id
