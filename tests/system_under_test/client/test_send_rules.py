from __future__ import annotations

import pytest

from staticfire.system_under_test.client.send_rules import (
    is_definitely_not_stored,
    is_worth_retrying,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.remoting import (
    RemotingClosed,
    RemotingConnectError,
    RemotingError,
    RemotingTimeout,
)


@pytest.mark.parametrize(
    ("failure", "definite", "retried"),
    [
        (ResponseCode.SYSTEM_ERROR, False, True),
        (ResponseCode.SYSTEM_BUSY, True, False),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, True, False),
        (ResponseCode.MESSAGE_ILLEGAL, True, False),
        (ResponseCode.SERVICE_NOT_AVAILABLE, True, True),
        (ResponseCode.NO_PERMISSION, True, True),
        (ResponseCode.TOPIC_NOT_EXIST, True, True),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, True, False),
        (4711, False, False),
        (RemotingConnectError("refused"), True, True),
        (RemotingTimeout("no answer"), False, True),
        (RemotingClosed("reset"), False, True),
        (RemotingError("any other"), False, True),
    ],
)
def test_what_a_failure_means(failure: int | RemotingError, definite: bool, retried: bool) -> None:
    assert is_definitely_not_stored(failure) is definite
    assert is_worth_retrying(failure) is retried
