"""Contents of an image: queried in a container, which is always removed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from staticfire.harness.machines.docker import engine
from staticfire.harness.machines.errors import EnvironmentFailed


class ScriptedContainer:
    """As much of the SDK's container as `ask_image` uses; `fault` is raised by `wait`."""

    def __init__(self, fault: Exception | None) -> None:
        self._fault = fault
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def wait(self, timeout: float) -> None:
        self.calls.append(f"wait {timeout:g}")
        if self._fault is not None:
            raise self._fault

    def logs(self, *, stdout: bool, stderr: bool) -> bytes:
        assert (stdout, stderr) == (True, False)
        return b"folder\n"

    def remove(self, *, force: bool) -> None:
        assert force
        self.calls.append("remove")


def asked(fault: Exception | None, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    """What `ask_image` returns or raises, and what it did."""
    container = ScriptedContainer(fault)
    client = SimpleNamespace(
        images=SimpleNamespace(get=lambda _: None),
        containers=SimpleNamespace(create=lambda *_, **__: container),
    )
    found = SimpleNamespace(client=client, close=lambda: container.calls.append("close"))
    monkeypatch.setattr(engine, "connect", lambda: found)
    try:
        return engine.ask_image("node:1", ("sh", "-c", "true")), container.calls
    except EnvironmentFailed as error:
        return str(error), container.calls


CALLS = ["start", "wait 30", "remove", "close"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (None, "folder\n"),
        (OSError("timed out"), "the image node:1 was asked what it has, and had not answered"),
        (docker.errors.APIError("no sh"), "the image node:1 cannot be asked: no sh"),
    ],
)
def test_nothing_is_left_of_the_container(
    fault: Exception | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, calls = asked(fault, monkeypatch)
    assert found.startswith(said)
    assert calls == CALLS
