"""Which client clauses RocketMQ's C++ library keeps against our cluster: the worked example of `conform --client`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from staticfire.harness.conformance.clients.processes import our_clients
from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.loopback import LoopbackSite
from staticfire.harness.conformance.sites.suite import choose, run_suite
from staticfire.harness.state import VARIABLE

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("rocketmq") is None, reason="needs the extra cpp-client"
    ),
]


def test_which_clauses_the_cpp_library_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    site = LoopbackSite(our_clients(sys.executable, "cpp"))

    result = run_suite(site, choose("client", ()))

    found = {one.clause.id: one for one in result.results}
    back = found.pop("RMQ-RTY-08")  # it goes on behind what it cannot send back
    assert back.outcome is Outcome.FAILED
    assert "although nothing was consumed" in back.reason
    times = found.pop("RMQ-SND-14")  # its unique keys do not count from the month's begin
    assert times.outcome is Outcome.FAILED
    assert "ms since its month began" in times.reason
    status = found.pop("RMQ-ADM-10")
    assert status.outcome is Outcome.FAILED
    assert "has no status of it" in status.reason
    retried = found.pop("RMQ-SND-16")  # with one broker it gives up after two attempts
    assert retried.outcome is Outcome.FAILED
    assert "the outcome of the third" in retried.reason
    refused = found.pop("RMQ-PUL-13")  # it repeats a refused pull at once
    assert refused.outcome is Outcome.FAILED
    assert "whose pulls are refused sent" in refused.reason
    for clause, why in (
        ("RMQ-PUL-12", "takes no kind but push"),
        ("RMQ-PUL-14", "takes no kind but push"),
        ("RMQ-FLT-10", "takes no expression_type but TAG"),
        ("RMQ-SND-17", "avoids no slow brokers"),
        ("RMQ-OFF-13", "the cluster has no slave"),
        ("RMQ-TXN-14", "--slow runs it"),
        ("RMQ-RTY-10", "--slow runs it"),
        ("RMQ-LIM-05", "batches"),
        ("RMQ-PUL-11", "the cluster has no slave"),
        ("RMQ-ADM-17", "cannot start the administrator"),
        ("RMQ-SND-15", "has no message trace"),
        ("RMQ-TXN-15", "has no transactions"),
        ("RMQ-SND-18", "has no requests"),
    ):
        untried = found.pop(clause)
        assert untried.outcome is Outcome.NOT_RUN
        assert why in untried.reason
    alone = found.pop(
        "RMQ-ORD-07"
    )  # it unlocks a queue that it loses while its listener works: sometimes seen
    assert alone.outcome is Outcome.PASSED or "at once for" in alone.reason
    assert {name: one.reason for name, one in found.items()} == dict.fromkeys(found, "")
    assert list(tmp_path.iterdir()) == []  # killed clients leave nothing for `staticfire clean`
