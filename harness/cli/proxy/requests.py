"""Carries out requests to a proxy: one JSON object a line, and one answer a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from staticfire.checkers.op_kinds.fields import NUMBER, TEXT, WHOLE, Kind
from staticfire.faults.errors import FaultError
from staticfire.faults.proxy import LinkFaultKind, Proxy
from staticfire.harness.clients.lines import LineError, check_fields, decode_line

ENDS: Mapping[str, Kind] = {"link": TEXT, "client": TEXT, "server": TEXT, "direction": TEXT}
# The fields that each kind of fault needs, and its optional fields.
NEEDED: Mapping[str, Mapping[str, Kind]] = {
    LinkFaultKind.DELAY: {"delay_ms": NUMBER},
    LinkFaultKind.LIMIT: {"bytes_per_s": WHOLE},
}
OPTIONAL: Mapping[str, Mapping[str, Kind]] = {LinkFaultKind.DELAY: {"jitter_ms": NUMBER}}
ANYWAY = ("f", "id")  # fields of every request; the answer repeats the id
LINK_ENDS = ">"

Fields = dict[str, Any]


def answer(proxy: Proxy, line: bytes) -> Fields:
    """Carry out the request of a line; return the answer. Bad input is one sentence in the answer."""
    number: Fields = {}
    try:
        request = decode_line(line)
        number = {"id": request["id"]} if "id" in request else {}
        return {**number, "ok": True, **_carry_out(proxy, request)}
    except (LineError, FaultError) as error:
        return {**number, "ok": False, "error": str(error)}


def _carry_out(proxy: Proxy, request: Fields) -> Fields:
    check_fields("a request", request, {"f": TEXT})
    f = request["f"]
    if f in list(LinkFaultKind):
        return _inject(proxy, f, request)
    if f not in LOOKS:
        allowed = ", ".join((*LinkFaultKind, *LOOKS))
        raise LineError(f"'f' of a request is {f!r:.80}; allowed: {allowed}")
    return LOOKS[f](proxy, request)


def _inject(proxy: Proxy, kind: str, request: Fields) -> Fields:
    needed, optional = NEEDED.get(kind, {}), {**ENDS, **OPTIONAL.get(kind, {})}
    _check(request, needed, optional)
    options = {name: value for name, value in request.items() if name not in ANYWAY}
    options |= _ends(options.pop("link", None), options)
    return {"fault": proxy.inject(kind, **options).to_json()}


def _ends(link: str | None, options: Fields) -> Fields:
    if link is None:
        return {}
    client, between, server = link.rpartition(LINK_ENDS)
    if not between or "client" in options or "server" in options:
        raise LineError(f"'link' is {link!r:.80}; allowed: CLIENT>SERVER, and then neither of them")
    return {"client": client, "server": server}


def _heal(proxy: Proxy, request: Fields) -> Fields:
    _check(request, {}, {"fault": WHOLE})
    number = request.get("fault")
    if number is None:
        return {"healed": [fault.to_json() for fault in proxy.heal()]}
    found = [fault for fault in proxy.faults if fault.number == number]
    if not found:
        there = ", ".join(str(fault.number) for fault in proxy.faults) or "none"
        raise LineError(f"there is no fault {number}; there are: {there}")
    return {"healed": [fault.to_json() for fault in proxy.heal(found[0])]}


def _links(proxy: Proxy, request: Fields) -> Fields:
    _check(request, {}, {})
    return {"links": [link.to_json() for link in proxy.links()]}


def _faults(proxy: Proxy, request: Fields) -> Fields:
    _check(request, {}, {})
    return {"faults": [fault.to_json() for fault in proxy.faults]}


def _servers(proxy: Proxy, request: Fields) -> Fields:
    _check(request, {}, {})
    return {
        "servers": [
            {"server": server.name, "address": str(server.address), "door": frontend, "dial": shown}
            for server, frontend, shown in proxy.servers
        ]
    }


def _name_servers(proxy: Proxy, request: Fields) -> Fields:
    """Make a frontend: name server addresses for this client alone."""
    _check(request, {}, {"client": TEXT})
    return {"name_servers": proxy.name_servers_for(request.get("client", ""))}


LOOKS: Mapping[str, Callable[[Proxy, Fields], Fields]] = {
    "heal": _heal,
    "links": _links,
    "faults": _faults,
    "servers": _servers,
    "name-servers": _name_servers,
}


def _check(request: Fields, needed: Mapping[str, Kind], optional: Mapping[str, Kind]) -> None:
    what = f"a request {request['f']!r}"
    check_fields(what, request, needed, optional)
    for name in request:
        if name not in (*ANYWAY, *needed, *optional):
            allowed = ", ".join((*needed, *optional)) or "no others"
            raise LineError(f"{what} has a field {name!r:.80}; allowed: {allowed}")
