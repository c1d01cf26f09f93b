"""What is kept of encoded routes is what would be encoded again."""

from __future__ import annotations

from typing import Any

from staticfire.system_under_test.name_server import encoded_routes
from staticfire.system_under_test.name_server.encoded_routes import EncodedRoutes
from staticfire.system_under_test.protocol.json_writer import dumps_fastjson


def route(*addresses: str) -> dict[str, Any]:
    return {"brokerDatas": [{"brokerAddrs": dict(enumerate(addresses)), "brokerName": "a"}]}


def test_a_route_is_encoded_anew_when_it_has_changed() -> None:
    routes = EncodedRoutes(dumps_fastjson)
    first = routes.encoded("T", route("10.0.0.1:10911"))
    assert routes.encoded("T", route("10.0.0.1:10911")) is first
    grown = route("10.0.0.1:10911", "10.0.0.2:10911")
    assert routes.encoded("T", grown) == dumps_fastjson(grown)
    assert routes.encoded("T", route("10.0.0.1:10911")) == first


def test_topics_do_not_share_a_route() -> None:
    routes = EncodedRoutes(dumps_fastjson)
    one, other = route("10.0.0.1:10911"), route("10.0.0.2:10911")
    for _ in range(2):
        assert routes.encoded("T", one) == dumps_fastjson(one)
        assert routes.encoded("U", other) == dumps_fastjson(other)


def test_what_is_kept_is_bounded() -> None:
    encoded = 0

    def encode(body: object) -> bytes:
        nonlocal encoded
        encoded += 1
        return dumps_fastjson(body)

    routes = EncodedRoutes(encode)
    for number in range(encoded_routes.TOPICS_KEPT + 1):
        routes.encoded(f"T{number}", route("10.0.0.1:10911"))
    routes.encoded("T0", route("10.0.0.1:10911"))
    assert encoded == encoded_routes.TOPICS_KEPT + 2
