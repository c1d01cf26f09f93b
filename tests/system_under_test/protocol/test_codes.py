"""Numbers that peers rely on."""

from __future__ import annotations

from staticfire.system_under_test.protocol.codes import (
    SEND_STATUS_OF_CODE,
    VERSION,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SendStatus,
)


def test_numbers_of_the_wire() -> None:
    assert VERSION == 409
    assert (LanguageCode.JAVA, LanguageCode.CPP, LanguageCode.PYTHON, LanguageCode.GO) == (
        0,
        1,
        3,
        9,
    )
    assert (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2) == (10, 310)
    assert (RequestCode.REGISTER_BROKER, RequestCode.GET_ROUTEINFO_BY_TOPIC) == (103, 105)
    assert (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.PULL_NOT_FOUND) == (17, 19)


def test_four_response_codes_mean_that_the_message_is_stored() -> None:
    assert SEND_STATUS_OF_CODE == {
        0: SendStatus.SEND_OK,
        10: SendStatus.FLUSH_DISK_TIMEOUT,
        11: SendStatus.SLAVE_NOT_AVAILABLE,
        12: SendStatus.FLUSH_SLAVE_TIMEOUT,
    }
