"""Rewrites broker addresses in the JSON bodies of answers: routes (105), clusters (106), members (901), topic lists
(304, 305).

It finds them by the names of properties, not by request codes, so that fields that a later RocketMQ adds are kept.
"""

from __future__ import annotations

import json
from typing import Final

from staticfire.faults.proxy.rocketmq.translator import Translator
from staticfire.system_under_test.protocol.json_dialect import BodyError, dumps, loads
from staticfire.system_under_test.protocol.json_writer import dumps_fastjson

ADDRESSES_BY_ID: Final = "brokerAddrs"  # broker id -> address
BROKER_NAME: Final = "brokerName"
SINGLE_ADDRESS: Final = "brokerAddr"
FILTER_SERVERS: Final = "filterServerTable"  # broker address -> addresses of filter servers
DIGITS_MAX: Final = 20  # a broker id is a Java long
_MARK: Final = b'"brokerAddr'  # the common beginning of ADDRESSES_BY_ID and SINGLE_ADDRESS
_FILTER_MARK: Final = b'"filterServerTable"'


def rewrite_body(body: bytes, translator: Translator) -> bytes | None:
    """Return the body with the addresses of the proxy; None if nothing changes.

    A body in fastjson's dialect stays in it, and standard JSON stays standard. A body that cannot be read is not
    changed.
    """
    if _MARK not in body and _FILTER_MARK not in body:
        return None
    try:
        document = loads(body)
        changed = _Rewriting(translator).of(document)
        if changed == document:
            return None
        return dumps(changed) if _is_standard(body) else dumps_fastjson(_with_integer_keys(changed))
    except (BodyError, RecursionError, TypeError):  # no JSON, or nested too deep to be written
        return None


class _Rewriting:
    """Rewrites one document."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def of(self, value: object) -> object:
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {name: self._member(name, member, value) for name, member in value.items()}

    def _member(self, name: str, member: object, owner: dict[str, object]) -> object:
        translate = self._translator.broker
        if name == ADDRESSES_BY_ID and isinstance(member, dict):
            group = owner.get(BROKER_NAME, "")
            return {
                broker_id: translate(address, f"{group}-{broker_id}" if group else "")
                if isinstance(address, str)
                else address
                for broker_id, address in member.items()
            }
        if name == SINGLE_ADDRESS and isinstance(member, str):
            return translate(member)
        if name == FILTER_SERVERS and isinstance(member, dict):
            return {translate(address): servers for address, servers in member.items()}
        return self.of(member)


def _is_standard(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _with_integer_keys(value: object) -> object:
    """Return the document with broker ids as integers, since Java writes these keys without quotes."""
    if isinstance(value, list):
        return [_with_integer_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: {_broker_id(key): address for key, address in member.items()}
        if name == ADDRESSES_BY_ID and isinstance(member, dict)
        else _with_integer_keys(member)
        for name, member in value.items()
    }


def _broker_id(text: str) -> int | str:
    is_number = text.isascii() and text.isdigit() and len(text) < DIGITS_MAX
    return int(text) if is_number else text
