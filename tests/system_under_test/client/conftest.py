"""A network of scripted nodes in place of real connections."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.acl.signature import Sign
from staticfire.system_under_test.client.routing import client_instance
from tests.system_under_test.client.scripted_remoting import ScriptedRemoting


@pytest.fixture
def remoting(monkeypatch: pytest.MonkeyPatch) -> ScriptedRemoting:
    """What every client of the test talks through."""
    scripted = ScriptedRemoting()

    def connect(_: object, *, on_request: object, sign: Sign | None = None) -> ScriptedRemoting:
        scripted.on_request = on_request
        return scripted

    monkeypatch.setattr(client_instance, "RemotingClient", connect)
    return scripted
