"""Which client clauses RocketMQ's C++ library keeps against our cluster: the worked example of `conform --client`."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from harness.conformance.clients.processes import ProcessClients, our_command
from harness.conformance.result import Outcome
from harness.conformance.sites.loopback import LoopbackSite
from harness.conformance.suite import choose, run_suite

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("rocketmq") is None, reason="needs the extra cpp-client"
    ),
]


def test_the_cpp_library_goes_on_behind_what_it_cannot_send_back_and_keeps_the_rest() -> None:
    site = LoopbackSite(ProcessClients("cpp", our_command(sys.executable, "cpp")))

    result = run_suite(site, choose("client", ()))

    found = {one.clause.id: one for one in result.results}
    assert found["RMQ-RTY-08"].outcome is Outcome.FAILED
    assert "although nothing was consumed" in found["RMQ-RTY-08"].reason
    assert found["RMQ-LIM-05"].outcome is Outcome.NOT_RUN
    assert "batches" in found["RMQ-LIM-05"].reason
    others = found.keys() - {"RMQ-RTY-08", "RMQ-LIM-05"}
    assert {name: found[name].reason for name in others} == dict.fromkeys(others, "")
