"""Every command of the pages is one that click accepts, in fences, in tables and in text."""

from __future__ import annotations

import click
import pytest

from tests.documents.pages import commands, inline_commands, pages, pages_with_commands
from tests.documents.parsing import arguments_of, parse
from tests.documents.tables import PARSED, REPLACED, STATUSES, key_of


@pytest.mark.parametrize("page", pages_with_commands())
def test_fenced_commands_parse(page: str) -> None:
    for command in commands(page):
        arguments = arguments_of(command.text)
        if arguments is None:
            continue
        try:
            parse(arguments)
        except click.UsageError as error:
            pytest.fail(f"{page}:{command.line}: {command.text}: {error.format_message()}")


@pytest.mark.parametrize("page", [page for page in pages() if page != "CHANGELOG.md"])
def test_commands_in_text_parse(page: str) -> None:
    for text in inline_commands(page):
        arguments = arguments_of(text)
        assert arguments is not None, text
        try:
            parse(arguments, may_lack=True)
        except click.UsageError as error:
            pytest.fail(f"{page}: {text}: {error.format_message()}")


@pytest.mark.parametrize(
    "text",
    [
        "staticfire rum",
        "staticfire run --seeds 1",
        "staticfire run --seed one",
        "staticfire admin updateTopics -t x",
        "staticfire explain",
    ],
)
def test_a_wrong_command_does_not_parse(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse(arguments_of(text) or [])


def test_words_of_a_command() -> None:
    assert arguments_of("staticfire run --seed 1 | head  # a comment") == ["run", "--seed", "1"]
    assert arguments_of("NAME=1 staticfire faults") == ["faults"]
    assert arguments_of("cat staticfire") is None


def test_the_tables_name_commands_that_are_there() -> None:
    there = {key_of(command.text) for page in pages_with_commands() for command in commands(page)}
    assert [key for key in (*PARSED, *REPLACED, *STATUSES) if key not in there] == []
    assert set(PARSED).isdisjoint(REPLACED)
