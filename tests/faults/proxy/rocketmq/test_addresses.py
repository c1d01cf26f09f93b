"""Addresses are read as clients read them, and refused with one sentence."""

from __future__ import annotations

import pytest

from staticfire.faults.proxy.rocketmq.addresses import Address, AddressError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("[2001:db8::1]:10911", "2001:db8::1", 10911),
        ("broker.example:1", "broker.example", 1),
    ],
)
def test_read_and_written_back(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == (host, port)
    assert str(Address.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "9876", ":9876", "host:", "host:x", "host:0", "host:65536", "host:٣"]
)
def test_refused(text: str) -> None:
    with pytest.raises(AddressError, match="allowed: "):
        Address.parse(text)
    assert Address.try_parse(text) is None


def test_what_is_no_text_is_no_address() -> None:
    assert Address.try_parse(None) is None


def test_an_ipv4_client_of_an_ipv6_socket() -> None:
    assert Address.of_socket(("::ffff:10.0.0.1", 5)) == ("10.0.0.1", 5)
