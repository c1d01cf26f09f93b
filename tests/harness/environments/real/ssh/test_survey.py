"""Capabilities that SSH hosts lack: asked in one command, reported with the first host that lacks them."""

from __future__ import annotations

import asyncio
import os

import pytest

from staticfire.faults.linux.executor import LocalExecutor
from staticfire.harness.environments.real.ssh.survey import CLOCK, NETEM, THROTTLE, ask, lacks_of
from staticfire.harness.machines.options import SshHost
from tests.support.recording_executor import RecordingExecutor

HOSTS = (SshHost(name="a"), SshHost(name="b"))


def test_a_host_tells_what_it_lacks() -> None:
    executor = RecordingExecutor()
    executor.answers = {"sh -c": "netem\nthrottle\n"}
    assert asyncio.run(ask(executor)) == {NETEM, THROTTLE}
    assert len(executor.commands) == 1


def test_the_first_host_is_named_and_delays_need_no_netem() -> None:
    lacks = lacks_of(HOSTS, [frozenset(), frozenset({NETEM, CLOCK})])
    assert sorted(lacks) == ["clock", "disk.power_cut_at", "network.lose"]
    assert lacks["clock"].startswith("root@b:22: there is no libfaketime")
    assert sorted(lacks_of(HOSTS, [frozenset(), frozenset()])) == ["disk.power_cut_at"]


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_this_machine_says_what_its_own_survey_says() -> None:
    from staticfire.harness.environments.real.broken_machines import lacks_here

    here = lacks_of(HOSTS[:1], [asyncio.run(ask(LocalExecutor()))])
    assert here.keys() == lacks_here().keys()
