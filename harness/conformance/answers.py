"""Decodes the answers of a target; an answer that cannot be decoded breaks the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from staticfire.harness.conformance.failures import BadAnswer
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, RecordError, decode_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A decoded answer to a pull."""

    code: int
    messages: list[Message]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker: int
    answer: RemotingCommand


def read_pull(answer: RemotingCommand) -> Pulled:
    """Decode an answer to a pull. Raises BadAnswer."""
    ext = answer.ext_fields
    return Pulled(
        code=answer.code,
        messages=read_messages(answer.body),
        next_offset=number(ext, "nextBeginOffset"),
        min_offset=number(ext, "minOffset"),
        max_offset=number(ext, "maxOffset"),
        suggested_broker=number(ext, "suggestWhichBrokerId"),
        answer=answer,
    )


def read_messages(body: bytes) -> list[Message]:
    """Decode stored records. Raises BadAnswer."""
    try:
        return decode_records(body)
    except RecordError as error:
        raise BadAnswer(f"a body of {len(body)} bytes is no list of records: {error}") from error


def number(fields: Mapping[str, str], name: str) -> int:
    """Return the integer in a field. Raises BadAnswer."""
    try:
        return int(fields[name])
    except KeyError:
        raise BadAnswer(f"the answer lacks the field {name}; it has {sorted(fields)}") from None
    except ValueError:
        raise BadAnswer(f"the field {name} is {fields[name]!r:.80}; expected an integer") from None


def json_object(answer: RemotingCommand) -> dict[str, Any]:
    """Return the JSON object in the body of an answer. Raises BadAnswer."""
    if answer.code != ResponseCode.SUCCESS:
        raise BadAnswer(f"the answer is {answer.code} {answer.remark!r:.200}; expected 0")
    return json_in(answer.body)


def json_in(data: bytes) -> dict[str, object]:
    """Return a JSON object. Raises BadAnswer."""
    try:
        found = json_dialect.loads(data)
    except ValueError as error:
        raise BadAnswer(f"a body of {len(data)} bytes is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadAnswer(f"the body is a JSON {type(found).__name__}; expected an object")
    return found
