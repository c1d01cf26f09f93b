"""Admin commands that change a cluster: they name it first, and destructive ones ask for confirmation."""

from __future__ import annotations

import io
import sys

import pytest

from staticfire.harness.cli.admin.acting import in_words
from staticfire.harness.cli.admin.commands import admin as admin_group
from tests.harness.cli.admin.conftest import CLUSTER, Admin, consent
from tests.harness.cli.admin.test_refusals import COMMANDS, arguments
from tests.harness.cli.conftest import Staticfire

OVERWRITING = {"updateTopic", "updateSubGroup", "updateKvConfig"}  # they ask only then
ASKING = [name for name in COMMANDS if consent(name)]
DESTRUCTIVE = [name for name in ASKING if name not in OVERWRITING]


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
        "updateaclconfig",
        "addwriteperm",
    }
    assert set(ASKING) >= OVERWRITING


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


# What overwrites only if there is something


def on(admin: Admin) -> str:
    return f"staticfire: on {CLUSTER} (2 masters, 1 slave), name servers {', '.join(admin.cluster.name_servers)}\n"


SUB_GROUP = (
    "consumeEnable true, consumeFromMinEnable false, retryMaxTimes 3",
    "consumeEnable false, consumeFromMinEnable true, retryMaxTimes 16",
)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize(
    ("make", "change", "said"),
    [
        (
            f"updateTopic -c {CLUSTER} -t Kept -r 16 -w 16",
            f"updateTopic -c {CLUSTER} -t Kept -r 2 -w 16 -p 4",
            "topic 'Kept' exists on broker-a, broker-b with 16 read queues, perm 6; "
            "it would have 2 read queues, perm 4",
        ),
        (
            "updateTopic -b {master} -t One -r 16 -w 16",
            f"updateTopic -c {CLUSTER} -t One",
            "topic 'One' exists on broker-a with 16 read queues, 16 write queues; "
            "it would have 8 read queues, 8 write queues",
        ),
        (
            f"updateSubGroup -c {CLUSTER} -g kept -r 3",
            f"updateSubGroup -c {CLUSTER} -g kept -s false -m true",
            "group 'kept' exists on broker-a, broker-b with "
            f"{SUB_GROUP[0]}; it would have {SUB_GROUP[1]}",
        ),
        (
            "updateKvConfig -s S -k kept -v old",
            "updateKvConfig -s S -k kept -v new",
            "key 'kept' of 'S' exists on {servers} with value old; it would have value new",
        ),
        (
            "updateOrderConf -t Kept -m put -v broker-a:4",
            "updateOrderConf -t Kept -m put -v broker-a:2",
            "the order configuration of 'Kept' exists on {servers} with orderConf broker-a:4; "
            "it would have orderConf broker-a:2",
        ),
        (
            f"updateTopic -c {CLUSTER} -t Ordered -o true",
            "updateTopic -b {master} -t Ordered -w 9 -o true",
            "topic 'Ordered' exists on {master} with 8 write queues; it would have 9 write queues; "
            "the order configuration of 'Ordered' exists on {servers} with orderConf broker-a:8;broker-b:8; "
            "it would have orderConf broker-a:9;broker-b:8",
        ),
    ],
)
def test_what_is_there_is_overwritten_only_with_consent(
    make: str, change: str, said: str, admin: Admin, staticfire: Staticfire
) -> None:
    names = {"master": admin.masters[0], "servers": ", ".join(admin.cluster.name_servers)}
    make, change, said = (text.format(**names) for text in (make, change, said))
    command, where = change.partition(" ")[0], ("-n", admin.cluster.name_server_address)

    assert staticfire("admin", *make.split(), *where).status == 0  # it is new
    assert staticfire("admin", *make.split(), *where).status == 0  # and the same again

    refused = staticfire("admin", *change.split(), *where)
    assert (refused.status, refused.out) == (254, "")
    assert refused.err == (
        f"staticfire: {said}: {command} asks before it acts, and there is no terminal; "
        "give --yes, or --dry-run to see its target\n"
    )
    dry = staticfire("admin", *change.split(), *where, "--dry-run")
    assert (dry.status, dry.out) == (0, "done  nothing, this was a dry run\n")
    lines = [line.removeprefix("staticfire: ") for line in dry.err.splitlines()]
    assert "; ".join(lines[1:-1]) == said
    assert staticfire("admin", *make.split(), *where).status == 0  # nothing was done

    sure = staticfire("admin", *change.split(), *where, "--yes")
    assert (sure.status, sure.err.count("\n")) == (0, 1)
    assert staticfire("admin", *change.split(), *where).status == 0
    assert staticfire("admin", *make.split(), *where).status == 254  # it was done


@pytest.mark.real
@pytest.mark.parametrize(("answer", "status", "queues"), [("y\n", 0, 2), ("\n", 254, 16)])
def test_on_a_terminal_it_says_what_would_become_of_a_topic(
    answer: str, status: int, queues: int, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    from staticfire.harness.cli import status_of

    topic, said = f"Asked-{queues}", Terminal()
    admin.text("updateTopic", "-c", CLUSTER, "-t", topic, "-r", 16)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", said)
    given = ["updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2"]
    assert status_of(["admin", *given, "-n", admin.cluster.name_server_address]) == status
    monkeypatch.undo()
    assert said.getvalue().startswith(
        f"{on(admin)}staticfire: topic '{topic}' exists on broker-a, broker-b with 16 read queues; "
        "it would have 2 read queues\nupdateTopic "
    )
    rows = admin.json("topicRoute", "-t", topic)
    assert {row["readQueueNums"] for row in rows} == {queues}


def test_no_question_shows_a_secret() -> None:
    assert in_words({"account": "a", "secretKey": "12345678"}) == "account=a secretKey=***"


@pytest.mark.real
def test_nothing_is_overwritten_at_the_default_address(
    admin: Admin, topic: str, staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    for option in admin_group.commands["updateTopic"].params:
        if option.name == "name_servers":
            monkeypatch.setattr(option, "default", admin.cluster.name_server_address)
    same = ("admin", "updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2")
    assert staticfire(*same).status == 0
    said = staticfire(*same[:-2], "-w", "3", "--yes")
    assert (said.status, said.out, said.err.count("\n")) == (254, "", 1)
    assert (
        "it would have 3 write queues: updateTopic takes no default address for that: " in said.err
    )


def test_every_command_that_asks_has_a_dry_run() -> None:
    for name in ASKING:
        options = {option for each in admin_group.commands[name].params for option in each.opts}
        assert {"--yes", "--dry-run"} <= options
