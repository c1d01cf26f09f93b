"""Runs the fuzz test under atheris: `python -m tests.fuzz.run_atheris -runs=2000` (arguments are libFuzzer's).

Needs `pip install -e '.[dev,fuzz]'`. The corpus is kept nowhere; a finding is printed with the input that made it. A
line is printed for each attack with the longest turn of an event loop so far: CPU milliseconds, of instrumented code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["staticfire.system_under_test"]):
    from tests.fuzz.fuzzed_nodes import PORTS, TURN_MAX_S, Conversation, FuzzedNodes, LongestTurn

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.peers import CONVERSATIONS

RESTART_EVERY = 500  # messages
NEW_NODES_EVERY = 2000  # messages: a simulated world keeps what ended until its own end
SEEDS = 100  # inputs to begin with: Hypothesis makes whole conversations of them
INPUT_SIZE = 4096


class Fuzzing:
    """The nodes under attack, and what the attacks have cost so far."""

    def __init__(self) -> None:
        self.attacks = 0
        self._worlds = 0
        self._nodes = self._new_nodes()
        self._turn = LongestTurn()
        self._turn.watch()
        self._longest_s = 0.0

    def _new_nodes(self) -> FuzzedNodes:
        self._worlds += 1
        return FuzzedNodes(seed=self._worlds)

    def attack(self, port: str, said: Conversation) -> None:
        """One attack, and whether the nodes are what they were."""
        self.attacks += 1
        self._nodes.attack(port, said)
        self._judge(port, self._turn.take(), said)
        self._nodes.check_alive()
        self._nodes.check_serves(attacked=port)
        if len(self._nodes.sent) % RESTART_EVERY == 0:
            self._nodes.check_restart()
        if len(self._nodes.sent) >= NEW_NODES_EVERY:
            self._nodes.close()
            self._nodes = self._new_nodes()
        self._turn.take()

    def _judge(self, port: str, turn_s: float, said: Conversation) -> None:
        if turn_s > self._longest_s:
            self._longest_s = turn_s
            print(f"attack {self.attacks} on {port}: a turn of {turn_s * 1000:.1f} ms", flush=True)
        assert turn_s <= TURN_MAX_S, (port, said)


def main() -> None:
    fuzzing = Fuzzing()

    @given(port=st.sampled_from(sorted(PORTS)), said=CONVERSATIONS)
    def attack(port: str, said: Conversation) -> None:
        fuzzing.attack(port, said)

    with TemporaryDirectory() as corpus:
        for number in range(SEEDS):
            (Path(corpus) / str(number)).write_bytes(Random(number).randbytes(INPUT_SIZE))
        options = [f"-max_len={INPUT_SIZE}", "-len_control=0", *sys.argv[1:], corpus]
        atheris.Setup([sys.argv[0], *options], attack.hypothesis.fuzz_one_input)  # type: ignore[attr-defined]
        atheris.Fuzz()


if __name__ == "__main__":
    main()
