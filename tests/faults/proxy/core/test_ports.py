"""Sockets that listen where they should, or say why not."""

from __future__ import annotations

import pytest

from staticfire.faults.proxy.core.ports import NotOurAddress, PortError, listen, listen_anywhere

pytestmark = pytest.mark.real
HOST = "127.0.0.1"


def test_free_ports_at_a_distance() -> None:
    found = listen_anywhere(HOST, (0, -2))
    first, second = (one.getsockname()[1] for one in found)
    assert second == first - 2
    with pytest.raises(PortError, match=f"port {second} on {HOST} is in use"):
        listen(HOST, [second])
    for one in found:
        one.close()


def test_an_address_of_another_machine() -> None:
    with pytest.raises(NotOurAddress, match=r"'192\.0\.2\.1' is no address of this machine"):
        listen_anywhere("192.0.2.1", (0,))
