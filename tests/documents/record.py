"""Writes what the commands of pages say now into the pages: `python -m tests.documents.record docs/tutorial.md ...`.

Where a command says every line that the page shows, the figures in these lines are renewed and lines "..." stay. Where
it does not, all of its output is written into the page: shorten it by hand. Run it from the root of the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.documents.pages import ROOT, Command, commands
from tests.documents.shell import Shell, as_said
from tests.documents.tables import PARSED, REPLACED, key_of


def record(page: str) -> None:
    found: list[tuple[Command, list[str]]] = []
    with TemporaryDirectory() as folder:
        shell = Shell(page, Path(folder))
        try:
            for command in commands(page):
                if key_of(command.text) in PARSED:
                    continue
                said = shell.run(command)
                print(f"{page}:{command.line}: {command.text}: status {said.status}", flush=True)
                if command.output and key_of(command.text) not in REPLACED:
                    lines = as_said(command.output, said.lines)
                    whole = [line for line in lines if line is not None]
                    found.append((command, said.lines if None in lines else whole))
        finally:
            shell.close()
    path = ROOT / page
    text = path.read_text(encoding="utf-8").split("\n")
    for command, said_lines in reversed(found):
        text[command.line : command.line + len(command.output or ())] = said_lines
    path.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(name)
