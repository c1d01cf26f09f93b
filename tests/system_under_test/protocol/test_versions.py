"""Names of versions, as RocketMQ's enumeration has them."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol.codes import VERSION
from staticfire.system_under_test.protocol.versions import version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (VERSION, "V4_9_8"),
        (211, "211"),
        (212, "V4_0_0_SNAPSHOT"),
        (213, "V4_0_0"),
        (413, "V5_0_0"),
        (611, "V5_9_9"),
        (612, "HIGHER_VERSION"),
    ],
)
def test_version_name(number: int, name: str) -> None:
    assert version_name(number) == name
