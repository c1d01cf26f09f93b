"""Fixtures of the tests of the name server."""

from __future__ import annotations

import pytest

from tests.system_under_test.name_server.hand_driven import Node


@pytest.fixture
def node() -> Node:
    return Node()
