"""`staticfire admin` accepts the commands and options of Apache's mqadmin 4.9.8."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staticfire.harness.cli.admin.commands import admin

RECORDED = Path("tests/data/mqadmin-options.txt")
OPTION = re.compile(r"-(?P<short>\w+)/(?P<long>\w*)(?P<required>!?)(?P<argument>=?)")
# What docs/admin.md names as left out
LEFT_OUT = {("clusterList", "i"), ("queryMsgById", "s"), ("queryMsgById", "u")}

THEIRS = {
    command: [OPTION.fullmatch(option) for option in options]
    for command, *options in (
        line.split() for line in RECORDED.read_text().splitlines() if not line.startswith("#")
    )
}


def test_only_three_commands_are_ours() -> None:
    assert set(admin.commands) - set(THEIRS) == {"getKvConfig", "liftCatchUp", "messageTrack"}
    assert not set(THEIRS) - set(admin.commands)


@pytest.mark.parametrize("command", sorted(THEIRS))
def test_options_of_a_command(command: str) -> None:
    ours = {name: each for each in admin.commands[command].params for name in each.opts}
    for theirs in THEIRS[command]:
        assert theirs is not None
        if (command, theirs["short"]) in LEFT_OUT:
            continue
        names = {f"-{theirs['short']}"}
        if theirs["long"] and "_" not in theirs["long"]:
            names.add(f"--{theirs['long']}")
        assert names <= set(ours)
        option = ours[f"-{theirs['short']}"]
        assert not (option.required and not theirs["required"]), names
        assert getattr(option, "is_flag", False) == (not theirs["argument"]), names
