from __future__ import annotations

import pytest

from staticfire.system_under_test.remoting.address import format_address, parse_address


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        ("broker-a:0", ("broker-a", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_there_and_back(text: str, parts: tuple[str, int]) -> None:
    assert parse_address(text) == parts
    assert format_address(*parts) == text


@pytest.mark.parametrize("text", ["", ":", "host", "host:", ":80", "host:-1", "host:65536", "h:²"])
def test_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not host:port") as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)
