"""Errors of the command line and their exit statuses."""

from __future__ import annotations

import pytest

from staticfire.harness.cli.status import BadInput, HarnessError, turn_errors


@pytest.mark.parametrize("into", [BadInput, HarnessError])
def test_errors_are_turned_with_their_sentence_and_cause(
    into: type[BadInput] | type[HarnessError],
) -> None:
    error = LookupError("there is no such run")
    with (
        pytest.raises(into, match=r"^there is no such run$") as raised,
        turn_errors(KeyError, LookupError, into=into),
    ):
        raise error
    assert raised.value.__cause__ is error


def test_an_error_of_another_kind_passes() -> None:
    error = OSError("the disk is full")
    with pytest.raises(OSError, match="full") as raised, turn_errors(LookupError, into=BadInput):
        raise error
    assert raised.value is error
