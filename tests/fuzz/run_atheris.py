"""Runs the fuzz test under atheris: `python -m tests.fuzz.run_atheris -runs=2000` (arguments are libFuzzer's).

Needs `pip install -e '.[dev,fuzz]'`. The corpus is kept nowhere; a finding is printed with the input that made it. A
line is printed for each attack with the longest turn of an event loop so far: CPU milliseconds, of instrumented code,
and where it was found.

* `--cpu-minutes N`: end after so much CPU time. The world is simulated, so that an attack waits for nothing real; what
  it takes beyond its CPU time is what other processes take. Several processes may run, each with a `-seed` of its own.
* `--keep FOLDER`: what was said to the nodes up to each such turn, for `python -m tests.fuzz.replay`.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import sys
import time
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import atheris

with atheris.instrument_imports(include=["staticfire.system_under_test"]):
    from tests.fuzz.fuzzed_nodes import PORTS, TURN_MAX_S, Conversation, FuzzedNodes

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.long_turns import LongestTurn, Turn
from tests.fuzz.peers import CONVERSATIONS

RESTART_EVERY = 500  # messages
NEW_NODES_EVERY = 2000  # messages: a simulated world keeps what ended until its own end
SEEDS = 100  # inputs to begin with: Hypothesis makes whole conversations of them
INPUT_SIZE = 4096
KEPT_FROM_S = 0.1


class Fuzzing:
    """The nodes under attack, and what the attacks have cost so far."""

    def __init__(self, kept: Path | None) -> None:
        self.attacks = 0
        self.worlds = 0
        self._kept = kept
        self._said: list[tuple[str, Conversation]] = []  # to the nodes that there are
        self._nodes = self._new_nodes()
        self._turn = LongestTurn()
        self._turn.watch()
        self.longest = Turn()

    def _new_nodes(self) -> FuzzedNodes:
        self.worlds += 1
        self._said.clear()
        return FuzzedNodes(seed=self.worlds)

    def attack(self, port: str, said: Conversation) -> None:
        """One attack, and whether the nodes are what they were."""
        self.attacks += 1
        self._said.append((port, said))
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

    def _judge(self, port: str, turn: Turn, said: Conversation) -> None:
        if turn.spent_s > self.longest.spent_s:
            self.longest = turn
            print(f"attack {self.attacks} on {port}: a turn of {turn}", flush=True)
            if self._kept is not None and turn.spent_s >= KEPT_FROM_S:
                path = self._kept / f"attack-{self.attacks}.pickle"
                path.write_bytes(pickle.dumps((self.worlds, self._said)))
        assert turn.spent_s <= TURN_MAX_S, (port, said)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--cpu-minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path)
    options, fuzzers = parser.parse_known_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    fuzzing = Fuzzing(options.keep)
    corpus = Path(mkdtemp())

    @given(port=st.sampled_from(sorted(PORTS)), said=CONVERSATIONS)
    def attack(port: str, said: Conversation) -> None:
        fuzzing.attack(port, said)

    def attack_in_time(data: bytes) -> None:
        attack.hypothesis.fuzz_one_input(data)  # type: ignore[attr-defined]
        if time.process_time() < options.cpu_minutes * 60:
            return
        print(
            f"{time.process_time() / 60:.1f} CPU minutes: {fuzzing.attacks} attacks on {fuzzing.worlds} worlds, "
            f"{len(list(corpus.iterdir()))} inputs, longest turn {fuzzing.longest}",
            flush=True,
        )
        shutil.rmtree(corpus)
        os._exit(0)  # libFuzzer has no other end in good order

    for number in range(SEEDS):
        (corpus / str(number)).write_bytes(Random(number).randbytes(INPUT_SIZE))
    arguments = [f"-max_len={INPUT_SIZE}", "-len_control=0", *fuzzers, str(corpus)]
    atheris.Setup([sys.argv[0], *arguments], attack_in_time)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
