"""Lines of JSON: the requests to a proxy, and its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staticfire.faults.proxy import Proxy
from staticfire.harness.cli.proxy.requests import answer


@pytest.fixture
def proxy() -> Proxy:
    return Proxy(["127.0.0.1:9876"])


def ask(proxy: Proxy, **request: Any) -> dict[str, Any]:
    return answer(proxy, json.dumps(request).encode())


@pytest.mark.parametrize(
    ("request_", "client", "server", "direction"),
    [
        ({"f": "drop"}, "*", "*", "both"),
        ({"f": "freeze", "link": "a>b", "direction": "up"}, "a", "b", "up"),
        ({"f": "cut", "client": "a", "server": "b"}, "a", "b", "both"),
        ({"f": "delay", "link": "a>b>c", "delay_ms": 5, "jitter_ms": 1.5}, "a>b", "c", "both"),
        ({"f": "limit", "server": "b", "bytes_per_s": 1}, "*", "b", "both"),
    ],
)
def test_faults(
    proxy: Proxy, request_: dict[str, Any], client: str, server: str, direction: str
) -> None:
    said = ask(proxy, id="x", **request_)
    [fault] = proxy.faults
    assert said == {"id": "x", "ok": True, "fault": fault.to_json()}
    assert fault.kind == request_["f"]
    assert (fault.client, fault.server, fault.direction) == (client, server, direction)
    for name in ("delay_ms", "jitter_ms", "bytes_per_s"):
        assert getattr(fault, name) == request_.get(name, 0)


def test_one_fault_is_healed_or_all(proxy: Proxy) -> None:
    for _ in range(3):
        ask(proxy, f="drop")
    assert [one["fault"] for one in ask(proxy, f="heal", fault=2)["healed"]] == [2]
    assert [one["fault"] for one in ask(proxy, f="faults")["faults"]] == [1, 3]
    assert [one["fault"] for one in ask(proxy, f="heal")["healed"]] == [1, 3]
    assert ask(proxy, f="heal") == {"ok": True, "healed": []}
    assert ask(proxy, f="links") == {"ok": True, "links": []}
    assert ask(proxy, f="servers") == {"ok": True, "servers": []}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x", "'x' is no JSON"),
        ("[]", "'[]' is no JSON object"),
        ("{}", "a request lacks 'f'"),
        ('{"f": 5}', "'f' of a request is 5; expected text"),
        (
            '{"f": "burn"}',
            "'f' of a request is 'burn'; allowed: delay, limit, drop, freeze, cut, heal, links",
        ),
        ('{"f": "drop", "link": "a"}', "'link' is 'a'; allowed: CLIENT>SERVER"),
        ('{"f": "drop", "link": "a>b", "server": "c"}', "and then neither of them"),
        ('{"f": "drop", "direction": "left"}', "direction is 'left'; allowed: up, down, both"),
        ('{"f": "drop", "ms": 5}', "a request 'drop' has a field 'ms'; allowed: link, client"),
        ('{"f": "links", "ms": 5}', "a request 'links' has a field 'ms'; allowed: no others"),
        ('{"f": "delay"}', "a request 'delay' lacks 'delay_ms'"),
        ('{"f": "delay", "delay_ms": "5"}', "is '5'; expected a whole number or a number"),
        ('{"f": "delay", "delay_ms": true}', "is True; expected a whole number or a number"),
        ('{"f": "delay", "delay_ms": -5}', "delay_ms is -5; allowed: above 0"),
        ('{"f": "limit", "bytes_per_s": 1.5}', "is 1.5; expected a whole number"),
        ('{"f": "heal", "fault": 9}', "there is no fault 9; there are: none"),
    ],
)
def test_refusals(proxy: Proxy, line: str, words: str) -> None:
    said = answer(proxy, line.encode())
    assert said["ok"] is False
    assert words in said["error"]
    assert proxy.faults == ()
