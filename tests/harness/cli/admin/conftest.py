"""A cluster for each module of tests, and `staticfire admin` on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.cli.admin.commands import admin as admin_group
from staticfire.harness.local_cluster import LocalCluster

CLUSTER = "DefaultCluster"


def consent(command: str) -> list[str]:
    """`--yes` for the commands that ask."""
    options = {option for each in admin_group.commands[command].params for option in each.opts}
    return ["--yes"] if "--yes" in options else []


def without_target(err: str) -> str:
    """What was said behind the line that names the cluster, if there is one."""
    return err.partition("\n")[2] if err.startswith("staticfire: on ") else err


class Admin:
    """`staticfire admin` against one cluster."""

    def __init__(self, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self._capsys = capsys

    @property
    def masters(self) -> list[str]:
        return [node.address for node in self.cluster.brokers if not node.is_slave]

    def text(self, *arguments: object) -> str:
        """What a command prints that succeeds."""
        status, out, err = self.run(*arguments)
        assert (status, without_target(err)) == (0, "")
        return out

    def json(self, *arguments: object) -> Any:
        return json.loads(self.text(*arguments, "--json"))

    def refusal(self, *arguments: object) -> str:
        """The one sentence of a command that fails for a reason of the cluster's."""
        status, out, err = self.run(*arguments)
        assert (status, out) == (255, "")
        err = without_target(err)
        assert err.startswith("staticfire: ")
        assert err.count("\n") == 1
        return err

    def run(self, *arguments: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        where = self.cluster.name_server_address
        given = [*map(str, arguments), *consent(str(arguments[0]))]
        status = status_of(["admin", *given, "-n", where, "--timeout", "3"])
        return (status, *self._capsys.readouterr())


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[LocalCluster]:
    # Sync flush: what is acknowledged is visible.
    with LocalCluster(masters=2, slaves=(1, 0), name_servers=2, flush="sync") as cluster:
        yield cluster


@pytest.fixture
def admin(running_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Admin:
    return Admin(running_cluster, capsys)


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with two queues on each master."""
    name = f"T-{request.node.name.partition('[')[0]}"
    admin.text("updateTopic", "-c", CLUSTER, "-t", name, "-r", 2, "-w", 2)
    return name
