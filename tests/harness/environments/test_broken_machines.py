"""What this host cannot do to machines, found out before a fleet is made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from harness.environments.broken_machines import NETEM_NEEDS, lacks_here, netem_is_here
from harness.environments.catalogue import missing_faults


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int | Exception]]:
    """Root, and what comes of each attempt to use netem: an exit status or an error."""
    outcomes: list[int | Exception] = []

    def run(argv: Any, **_: Any) -> subprocess.CompletedProcess[bytes]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return subprocess.CompletedProcess(argv, outcome)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    netem_is_here.cache_clear()
    yield outcomes
    netem_is_here.cache_clear()


def test_a_kernel_with_netem_lacks_nothing_of_it_and_is_asked_once(
    tried: list[int | Exception],
) -> None:
    tried.append(0)
    for _ in range(2):
        assert not NETEM_NEEDS & lacks_here().keys()


@pytest.mark.parametrize(
    "outcome", [2, FileNotFoundError("unshare"), subprocess.TimeoutExpired("tc", 10)]
)
def test_without_netem_a_proxy_delays_and_nothing_is_lost(
    tried: list[int | Exception], outcome: int | Exception
) -> None:
    tried.append(outcome)
    missing = missing_faults(lacks_here())
    assert "network-latency" not in missing
    assert "no netem" in missing["packet-loss"]
    assert "bandwidth" not in missing


def test_without_root_nothing_is_tried(
    tried: list[int | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not NETEM_NEEDS & lacks_here().keys()
