"""Commands that change a cluster name it first; those that destroy something want to be asked for it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from staticfire.harness.cli.admin import admin as admin_group
from tests.harness.cli.admin.conftest import CLUSTER, Admin, consent
from tests.harness.cli.admin.test_refusals import COMMANDS, arguments
from tests.harness.cli.conftest import Said

Staticfire = Callable[..., Said]
DESTRUCTIVE = [name for name in COMMANDS if consent(name)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_destructive() -> None:
    assert {name.lower() for name in DESTRUCTIVE} == {
        name.lower()
        for name in COMMANDS
        if name.startswith(("delete", "clean", "wipe", "reset", "skip", "clone", "lift"))
    } | {
        "updatebrokerconfig",
        "updatenamesrvconfig",
        "updatetopicperm",
        "updateorderconf",
        "updateglobalwhiteaddr",
    }


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_without_a_terminal_it_wants_yes(command: str, staticfire: Staticfire) -> None:
    given = [word for word in arguments(command, 1) if word != "--yes"]
    if command == "updateOrderConf":
        given = ["-t", "T", "-m", "delete"]
    said = staticfire("admin", command, *given, "-n", "127.0.0.1:1")
    assert (said.status, said.out) == (254, "")
    assert said.err == (
        f"staticfire: {command} asks before it acts, and there is no terminal; "
        "give --yes, or --dry-run to see its target\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "deleteTopic -c C -t T",
        "cleanUnusedTopic",
        "wipeWritePerm -b broker-a",
        "updateOrderConf -t T -m delete",
        "skipAccumulatedMessage -g G -t T",
    ],
)
@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_it_takes_no_default_address(
    line: str, how: str, staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    said = staticfire("admin", *line.split(), how)
    assert (said.status, said.out, said.err.count("\n")) == (254, "", 1)
    assert "takes no default address" in said.err
    assert "-n ADDRESS or in NAMESRV_ADDR" in said.err


@pytest.mark.real
def test_it_says_where_it_acts(admin: Admin, topic: str) -> None:
    where = ", ".join(admin.cluster.name_servers)
    cluster = f"staticfire: on {CLUSTER} (2 masters, 1 slave), name servers {where}\n"
    for line in (
        f"sendMessage -t {topic} -p x",
        f"updateTopicPerm -c {CLUSTER} -t {topic} -p 6",
        "updateKvConfig -s s -k k -v v",
    ):
        status, _, err = admin.run(*line.split())
        assert (status, err) == (0, cluster)
    master = admin.masters[0]
    status, _, err = admin.run("cleanUnusedTopic", "-b", master)
    assert (status, err) == (
        0,
        f"staticfire: on broker-a of {CLUSTER}, the broker at {master}\n",
    )
    assert admin.run("topicRoute", "-t", topic)[2] == ""  # it only reads


@pytest.mark.real
def test_the_environment_names_the_cluster(
    admin: Admin, topic: str, staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", admin.cluster.name_server_address)
    said = staticfire("admin", "deleteTopic", "-c", CLUSTER, "-t", topic, "--yes")
    assert said.status == 0
    assert topic not in admin.text("topicList").split()


@pytest.mark.real
def test_a_dry_run_changes_nothing(admin: Admin, topic: str) -> None:
    status, out, err = admin.run("deleteTopic", "-c", CLUSTER, "-t", topic, "--dry-run")
    assert (status, out) == (0, "done  nothing, this was a dry run\n")
    assert err.splitlines()[1:] == [
        f"staticfire: it would be deleteTopic cluster={CLUSTER} topic={topic}"
    ]
    assert topic in admin.text("topicList").split()


@pytest.mark.real
@pytest.mark.parametrize(
    ("answer", "status", "is_there"),
    [
        ("y\n", 0, False),
        ("Yes\n", 0, False),
        ("\n", 254, True),
        ("no\n", 254, True),
        ("", 254, True),
    ],
)
def test_on_a_terminal_it_asks(
    answer: str,
    status: int,
    is_there: bool,
    admin: Admin,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from staticfire.harness.cli import status_of

    said = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", said)
    where = admin.cluster.name_server_address
    given = ["deleteTopic", "-c", CLUSTER, "-t", topic, "-n", where]
    assert status_of(["admin", *given]) == status
    monkeypatch.undo()
    assert f"deleteTopic cluster={CLUSTER} topic={topic}: go on? [y/N] " in said.getvalue()
    assert ("was not confirmed; nothing is changed" in said.getvalue()) == is_there
    assert (topic in admin.text("topicList").split()) == is_there


def test_every_command_that_asks_has_a_dry_run() -> None:
    for name in DESTRUCTIVE:
        options = {option for each in admin_group.commands[name].params for option in each.opts}
        assert {"--yes", "--dry-run"} <= options
