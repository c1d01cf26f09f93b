"""What peers say is shown, and does nothing to the terminal on which it is shown."""

from __future__ import annotations

import pytest

from harness.cli.status import one_sentence
from harness.conformance.outputs.markdown import _text
from harness.shown import printable

CLEARS_SCREEN = "key\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain, with ünïcode and 漢字", "plain, with ünïcode and 漢字"),
        (CLEARS_SCREEN, r"key\x1b[2J\x1b]0;title\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("turned \u202e around", r"turned \u202e around"),
        ("\x9b2J", r"\x9b2J"),
        ("half a pair \ud800", r"half a pair \ud800"),
        ("", ""),
    ],
)
def test_printable(text: str, line: str) -> None:
    assert printable(text) == line
    assert printable(line) == line


def test_a_complaint_holds_no_control_character() -> None:
    assert one_sentence(f"the key is\n{CLEARS_SCREEN}") == r"the key is key\x1b[2J\x1b]0;title\x07"


def test_markdown_holds_neither_control_characters_nor_marks() -> None:
    assert _text(f"{CLEARS_SCREEN}\n# <b>") == r"key\\x1b\[2J\\x1b\]0;title\\x07 # \<b\>"
