"""Reads the Markdown pages of the project: their links, headings, fences and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
GENERATED = ("docs/cli.md", "docs/cli-admin.md")  # examples of --help, which test_help.py reads
COMMANDS_ONLY, WITH_OUTPUT = "sh", "console"
# Every fence names its language: a fence without one could hide commands from the tests.
LANGUAGES = {
    COMMANDS_ONLY,
    WITH_OUTPUT,
    "text",
    "toml",
    "json",
    "python",
    "yaml",
    "diff",
    "makefile",
    "sql",
    "dockerfile",
    "ini",
    "java",
    "properties",
}


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block; `line` counts from 1 and is that of its first line inside."""

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a page and the output that the page shows of it (None: it shows none)."""

    page: str
    line: int
    text: str
    output: tuple[str, ...] | None = None


def pages() -> list[str]:
    """Every page, README first, as paths from the root."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"]
    return sorted(
        (str(path.relative_to(ROOT)) for path in paths), key=lambda name: ("/" in name, name)
    )


def pages_with_commands() -> list[str]:
    """README and the pages of docs/, without the generated reference."""
    wanted = ("README.md", "docs/")
    return [name for name in pages() if name.startswith(wanted) and name not in GENERATED]


@cache
def tokens(page: str) -> tuple[Token, ...]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return tuple(MarkdownIt("commonmark").enable("table").parse(text))


@cache
def fences(page: str) -> tuple[Fence, ...]:
    """The fences of a page; for them the page is parsed without its tables and what stands inside of lines."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return tuple(
        Fence(page, (token.map or [0])[0] + 2, token.info.strip(), token.content)
        for token in MarkdownIt("commonmark").disable("inline").parse(text)
        if token.type == "fence"
    )


def commands(page: str) -> list[Command]:
    """The commands in the fences of a page, in its order."""
    found: list[Command] = []
    for fence in fences(page):
        if fence.language == COMMANDS_ONLY:
            found += _plain_commands(fence)
        elif fence.language == WITH_OUTPUT:
            found += _commands_with_output(fence)
    return found


def _plain_commands(fence: Fence) -> Iterator[Command]:
    """A command a line; one that ends in a backslash goes on in the next."""
    lines = iter(enumerate(fence.text.splitlines(), fence.line))
    for number, line in lines:
        whole = line
        while whole.endswith("\\"):
            whole = f"{whole[:-1].rstrip()} {next(lines)[1].strip()}"
        if shlex.split(whole, comments=True):
            yield Command(fence.page, number, whole.strip())


def _commands_with_output(fence: Fence) -> Iterator[Command]:
    """Lines that begin with "$ " are commands; those below, up to the next command, are output."""
    command, line, output = "", 0, list[str]()
    for number, text in enumerate(fence.text.splitlines(), fence.line):
        if not text.startswith("$ "):
            output.append(text.rstrip())
            continue
        if command:
            yield Command(fence.page, line, command, tuple(output) or None)
        command, line, output = text[2:].strip(), number, []
    assert command, f"{fence.page}:{fence.line}: a console block without a command"
    yield Command(fence.page, line, command, tuple(output) or None)


def inline_commands(page: str) -> list[str]:
    """Code in a line of text or a table that begins with `staticfire ` and an option or command."""
    found = [
        child.content
        for token in tokens(page)
        for child in token.children or ()
        if child.type == "code_inline" and re.match(r"staticfire [a-z-]", child.content)
    ]
    return [text for text in found if "..." not in text]


def links(page: str) -> list[str]:
    """The targets of all links and pictures of a page."""
    found: list[str] = []
    for token in tokens(page):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                found.append(str(target))
    return found


def anchors(page: str) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    found: set[str] = set()
    read = tokens(page)
    for opening, inline in pairwise(read):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found.add(slug if slug not in found else f"{slug}-1")
    return found
