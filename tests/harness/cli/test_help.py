"""Help of every command: a description, an example that works when pasted, and the exit statuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from staticfire.harness.cli import COMMANDS, cli
from tests.harness.cli.conftest import Staticfire

ROOT = Path(__file__).parents[3]
LISTS = {"faults", "workloads", "campaigns"}  # they judge nothing
TABLES = {"promises"}  # nor do these
GROUPS = {"cluster", "admin", "history"}  # nor do these; their commands say their statuses
SEARCHES = {"reproduce", "resimulate"}  # they find it or run out of time
FOUND = {"farm"}  # it says whether it found something
CERTAIN = {"crash-store"}  # a comparison with a model is never unknown
MACHINE = {
    "clean",
    "docker-image",
    "doctor",
    "proxy",
    "bugs",
    "explain",
    "export",
    "look",
    "serve",
    "report",
    "shrink",
    "synthesize",
}  # they judge no queue


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_an_example_and_the_exit_statuses(name: str, staticfire: Staticfire) -> None:
    said = staticfire(name, "--help")
    assert said.status == 0
    assert re.search(rf"Example:\n +staticfire {name}\b", said.out)
    if name not in LISTS | TABLES | GROUPS:
        for status in statuses_of(name):
            assert re.search(rf"Exit status:.*\b{status} ", said.out, re.DOTALL), status
    assert max(map(len, said.out.splitlines())) <= 100


def statuses_of(name: str) -> tuple[str, ...]:
    if name in MACHINE:
        return ("0", "254", "255")
    if name in SEARCHES:
        return ("0", "2", "254", "255")
    return ("0", "1", "254", "255") if name in CERTAIN | FOUND else ("0", "1", "2", "254", "255")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_examples_parse(name: str, staticfire: Staticfire) -> None:
    """Each example's options exist: with --help added, the command line is accepted."""
    examples = re.findall(r"^ +(staticfire .*)$", staticfire(name, "--help").out, re.MULTILINE)
    assert examples
    for example in examples:
        command, _, _ = example.partition(" >")
        assert staticfire(*command.split()[1:], "--help").status == 0


def test_every_command_is_in_the_overview(staticfire: Staticfire) -> None:
    out = staticfire("--help").out
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert re.search(rf"^  {name} +{re.escape(command.get_short_help_str(80))}", out, re.M)


@pytest.mark.parametrize("name", sorted(LISTS))
def test_lists_have_one_line_each(name: str, staticfire: Staticfire) -> None:
    said = staticfire(name)
    assert said.status == 0
    assert said.out.splitlines()
    assert all(len(line.split(maxsplit=1)) == 2 for line in said.out.splitlines())


def test_the_commands_are_there_before_the_system_under_test_is_imported() -> None:
    """Otherwise no defect could be planted."""
    code = "import sys, staticfire.harness.cli; sys.exit('staticfire.system_under_test' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_a_wrong_command_gets_the_nearest_right_ones(staticfire: Staticfire) -> None:
    said = staticfire("reprot")
    assert said.status == 254
    assert said.err.startswith("staticfire: there is no command 'reprot'; did you mean report")
    assert staticfire("xyzzy").err == "staticfire: No such command 'xyzzy'.\n"
