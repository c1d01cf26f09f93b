"""The JSON Schema of the line protocol, docs/client-protocol.schema.json, from the declarations of the kinds of op."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from staticfire.checkers.model.history import OpType
from staticfire.checkers.op_kinds.fields import Field, Fields, Kind
from staticfire.checkers.op_kinds.kind import OpKind
from staticfire.harness.clients import configuration
from staticfire.harness.pages.client_protocol import asked, reported

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
JSON_TYPES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}
WHOLE: Schema = {"type": "integer"}
STAMP: Schema = {"type": "integer", "minimum": 0, "description": "the client's monotonic clock, ns"}
ERROR: Schema = {"type": ["string", "null"]}
# The first line of a client: required fields, and optional ones.
CONFIGURATIONS: Mapping[str, tuple[Mapping[str, Kind], Mapping[str, Kind]]] = {
    "producer": (
        configuration.NEEDED,
        {**configuration.COMMON, **configuration.PRODUCER, **configuration.ACCOUNTS},
    ),
    "consumer": (
        {**configuration.NEEDED, "topic": configuration.COMMON["topic"]},
        {**configuration.COMMON, **configuration.CONSUMER},
    ),
}


def protocol_schema() -> str:
    """Return the whole file, ended by a newline.

    Definitions have the names configuration_<role>, request_<f>, answer_<f> and report_<f>; configuration, request,
    answer and report stand for any of them.
    """
    kinds = {
        "configuration": {role: _configuration(*known) for role, known in CONFIGURATIONS.items()},
        "request": {kind.name: _request(kind) for kind in asked()},
        "report": {kind.name: _report(kind) for kind in reported()},
    }
    definitions: dict[str, Schema] = {
        group: {"anyOf": [{"$ref": f"#/$defs/{group}_{name}"} for name in named]}
        for group, named in kinds.items()
    }
    definitions["answer"] = _answer({})
    for group, named in kinds.items():
        definitions |= {f"{group}_{name}": schema for name, schema in named.items()}
    definitions |= {f"answer_{kind.name}": _answer(kind.result or {}) for kind in asked()}
    schema = {
        "$schema": DRAFT,
        "title": "The line protocol of Staticfire's clients",
        "description": "One line of a client's standard input or output. docs/client-protocol.md says what lines mean. "
        "An answer does not say what it answers: answer_<f> is the answer to the request <f>.",
        "anyOf": [
            {"$ref": f"#/$defs/{group}"}
            for group in ("configuration", "request", "answer", "report")
        ],
        "$defs": definitions,
    }
    return json.dumps(schema, indent=1) + "\n"


def _configuration(needed: Mapping[str, Kind], others: Mapping[str, Kind]) -> Schema:
    properties = {name: _of_kind(kind) for name, kind in {**needed, **others}.items()}
    return {"type": "object", "properties": properties, "required": list(needed)}


def _request(kind: OpKind) -> Schema:
    fields = _object(kind.request or {})
    return {
        "description": kind.about,
        "type": "object",
        "properties": {"id": WHOLE, "f": {"const": kind.name}, **fields["properties"]},
        "required": ["id", "f", *fields["required"]],
    }


def _answer(result: Fields) -> Schema:
    answer: Schema = {
        "type": "object",
        "properties": {"id": WHOLE, **_outcome(["ok", "fail", "info"], {"type": "object"})},
        "required": ["id", "type", "value"],
    }
    return {**answer, **_when_ok(result)} if result else answer


def _report(kind: OpKind) -> Schema:
    types = ["ok", "fail"] if kind.name == "open" else list(get_args(OpType))
    outcome = _outcome(types, _object(kind.report or {}))
    return {
        "description": kind.report_about or kind.about,
        "type": "object",
        "properties": {"emit": {"const": kind.name}, **outcome},
        "required": ["emit", "type", "value"],
        **(_when_ok(kind.result) if kind.result else {}),
    }


def _outcome(types: list[str], value: Schema) -> Schema:
    return {"type": {"enum": types}, "value": value, "error": ERROR, "at_ns": STAMP}


def _when_ok(result: Fields) -> Schema:
    return {
        "if": {"properties": {"type": {"const": "ok"}}},
        "then": {"properties": {"value": _object(result)}},
    }


def _object(fields: Fields) -> Schema:
    """Return the schema of an object, which may have undeclared fields, too."""
    return {
        "type": "object",
        "properties": {name: _field(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if not field.is_optional],
    }


def _field(field: Field) -> Schema:
    schema: Schema = {"description": field.about, **_of_kind(field.kind)}
    if field.allowed:
        schema["enum"] = list(field.allowed)
    if field.least is not None:
        schema["minimum"] = field.least
    if field.most is not None:
        schema["maximum"] = field.most
    if field.objects is not None:
        schema["items"] = _object(field.objects)
    elif field.row is not None:
        schema["items"] = _row(field.row, field.contents)
    elif field.item is not None:
        schema["additionalProperties" if field.kind == (dict,) else "items"] = _field(field.item)
    return schema


def _row(columns: Fields, contents: Fields | None = None) -> Schema:
    """Return the schema of a list with exactly these items and an optional last one."""
    items = [_field(column) for column in columns.values()]
    if contents is not None:
        items.append(_row(contents))
    return {
        "type": "array",
        "prefixItems": items,
        "minItems": len(columns),
        "maxItems": len(items),
    }


def _of_kind(kind: Kind) -> Schema:
    types = [JSON_TYPES[one] for one in kind if one is not int or float not in kind]
    return {"type": types[0] if len(types) == 1 else types} if types else {}
