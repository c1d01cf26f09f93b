"""The JSON Schema of the line protocol: accepts the messages of both sides, and rejects violations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.model.history import OpType
from staticfire.checkers.op_kinds.catalogue import OP_KINDS, REPORTED
from staticfire.harness.clients.line_requests import CONSUMER, PRODUCER, checker
from staticfire.harness.clients.line_values import check_emitted, check_result
from staticfire.harness.clients.port import ClientPort, Outcome, Request
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.pages.schema import protocol_schema
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.harness.clients.test_process_port import GARBAGE
from tests.support.json_schema import Validator

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "client-protocol.md").read_text(encoding="utf-8")
HISTORIES = sorted((ROOT / "tests" / "data").glob("apache-runs/*/history.jsonl"))
# The garbage of which one line alone shows that it is some.
UNRELATED = ("is no JSON", "is not the id", "places came back", "lacks 'queue_offset'")
WORKLOADS = ("queue", "retry", "transactional", "request-reply", "bulk", "forwarded", "ordered")


@pytest.fixture(scope="module")
def schema() -> Validator:
    return Validator(json.loads(protocol_schema()))


def mistakes_of(schema: Validator, lines: list[tuple[str, Any]]) -> list[str]:
    """Of a conversation: the first line, then requests (`>`), answers and reports (`<`)."""
    asked: dict[int, str] = {}
    found = []
    for number, (who, fields) in enumerate(lines):
        if number == 0:
            role = "consumer" if "topic" in fields else "producer"
            definition = f"configuration_{role}"
        elif who == ">":
            asked[fields["id"]] = fields["f"]
            definition = f"request_{fields['f']}"
        elif "emit" in fields:
            definition = f"report_{fields['emit']}"
        else:
            definition = f"answer_{asked[fields['id']]}"
        found += schema.mistakes(fields, definition) + schema.mistakes(fields)
    return found


def test_the_session_of_the_documentation_fits(schema: Validator) -> None:
    block = PAGE.partition("## A session")[2].split("```")[1].removeprefix("text").strip()
    clients = [
        [(line[0], json.loads(line[2:])) for line in part.splitlines()]
        for part in block.split("\n\n")
    ]
    assert [mistakes_of(schema, lines) for lines in clients] == [[], []]


def test_each_line_that_the_page_shows_fits(schema: Validator) -> None:
    blocks = PAGE.split("```json\n")[1:]
    lines = [line for block in blocks for line in block.partition("```")[0].splitlines()]
    assert len(lines) >= 6
    assert [schema.mistakes(json.loads(line)) for line in lines] == [[]] * len(lines)


class Recorded:
    """What clients and harness said to each other in a simulated run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[tuple[Request, Outcome]] = []
        self.reports: list[tuple[OpType, str, dict[str, Any], str | None]] = []
        ask, emit = ClientPort.request, ClientPort.emit

        async def request(port: ClientPort, request: Request) -> Outcome:
            outcome = await ask(port, request)
            self.answers.append((request, outcome))
            return outcome

        def emitted(
            port: ClientPort, type: OpType, f: str, value: dict[str, Any], error: str | None
        ) -> None:
            self.reports.append((type, f, value, error))
            emit(port, type, f, value, error)

        monkeypatch.setattr(ClientPort, "request", request)
        monkeypatch.setattr(ClientPort, "emit", emitted)


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_our_clients_say_fits_and_is_taken(
    workload: str, schema: Validator, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Recorded(monkeypatch)
    options = {"workload": workload, "time_s": 1.0, "acks_min": 1, "faults": ("kill",)}
    run_simulated(draw_campaign(11, options))
    found = []
    for request, outcome in said.answers:
        f = request["f"]
        if f not in {**PRODUCER, **CONSUMER}:
            continue  # the administrator's
        checker("client", {**PRODUCER, **CONSUMER}, [request.get("account", "")])(request)
        check_result(request, outcome)
        found += schema.mistakes({"id": 1, **request}, f"request_{f}")
        answer = {"id": 1, "type": outcome.type, "value": outcome.value, "error": outcome.error}
        found += schema.mistakes(json.loads(json.dumps(answer)), f"answer_{f}")
    for type, f, value, error in said.reports:
        plain = json.loads(json.dumps(value))
        check_emitted(type, f, plain)
        report = {"emit": f, "type": type, "value": plain, "error": error}
        found += schema.mistakes(report, f"report_{f}")
    assert found == []
    assert {f for _, f, _, _ in said.reports} >= {"open", "assign", "commit"}


@pytest.mark.slow
@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.parent.name)
def test_what_clients_reported_in_recorded_histories_fits(path: Path, schema: Validator) -> None:
    ops = [json.loads(line) for line in path.read_bytes().splitlines()]
    reports = [
        {"emit": op["f"], "type": op["type"], "value": op["value"], "error": op.get("error")}
        for op in ops
        if op["f"] in REPORTED and op["f"] != "send_many"
    ]
    assert [
        what for line in reports for what in schema.mistakes(line, f"report_{line['emit']}")
    ] == []


@pytest.mark.parametrize(("line", "complaint"), GARBAGE)
def test_what_the_harness_refuses_does_not_fit(
    line: bytes, complaint: str, schema: Validator
) -> None:
    if not any(words in complaint for words in UNRELATED):
        definition = "answer_send_batch" if "expected an object" in complaint else None
        assert schema.mistakes(json.loads(line), definition)


@pytest.mark.parametrize("size", [-1, "9", True, 1 << 40])
def test_a_request_that_clients_refuse_does_not_fit(size: object, schema: Validator) -> None:
    request = {"id": 1, "f": "send", "topic": "T", "key": "k", "size": size}
    assert schema.mistakes(request, "request_send") == [f"line.size is {size!r}"]


def test_every_kind_that_clients_know_is_defined(schema: Validator) -> None:
    definitions = json.loads(protocol_schema())["$defs"]
    for kind in OP_KINDS.values():
        assert (f"request_{kind.name}" in definitions) == bool(kind.asked_of)
        assert (f"answer_{kind.name}" in definitions) == bool(kind.asked_of)
        assert (f"report_{kind.name}" in definitions) == (kind.name in REPORTED)
