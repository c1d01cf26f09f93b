"""Whatever peers send, the nodes live, serve, and keep what they acknowledged.

`python -m tests.fuzz.run_atheris` runs the same test under a coverage-guided fuzzer.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.remoting import Connection
from tests.fuzz.fuzzed_nodes import PORTS, Conversation, FuzzedNodes
from tests.fuzz.peers import CONVERSATIONS

RESTART_EVERY = 50
ATTACKS = 40
GOODBYE_S = 3.0  # for a TLS session to end


@pytest.fixture(scope="module")
def nodes() -> Iterator[FuzzedNodes]:
    nodes = FuzzedNodes()
    yield nodes
    nodes.close()


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(port=st.sampled_from(sorted(PORTS)), said=CONVERSATIONS)
def test_nodes_live_and_serve(nodes: FuzzedNodes, port: str, said: Conversation) -> None:
    nodes.attack(port, said)
    nodes.check_alive()
    nodes.check_serves(attacked=port)
    if len(nodes.sent) % RESTART_EVERY == 0:
        nodes.check_restart()


def test_what_a_peer_took_goes_with_it() -> None:
    """No connection and no half-read frame is left once the peer has gone."""
    nodes = FuzzedNodes()
    half_a_frame = Conversation([b"\x00\x00\x10\x00\x00\x00\x00\x40" + b"x" * 1000])
    try:
        nodes.attack("broker", half_a_frame)
        nodes.rest(GOODBYE_S)
        before = connections_in_memory()
        for _ in range(ATTACKS):
            nodes.attack("broker", half_a_frame)
        nodes.rest(GOODBYE_S)
        # The simulated loop forgets timers that were cancelled some at a time.
        assert connections_in_memory() - before < ATTACKS / 2
    finally:
        nodes.close()


def connections_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, Connection) for one in gc.get_objects())
