"""What a long turn costs without instrumentation: `python -m tests.fuzz.replay FILE` (of `run_atheris --keep`).

The same is said to the same simulated nodes in the same order, and the longest turn printed: of the last attack, and of
each attack with a longer turn than those before it.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from tests.fuzz.fuzzed_nodes import FuzzedNodes
from tests.fuzz.long_turns import LongestTurn, Turn

RESTART_EVERY = 500  # messages, as in run_atheris


def main() -> None:
    world, said = pickle.loads(Path(sys.argv[1]).read_bytes())
    nodes = FuzzedNodes(seed=world)
    watch, longest, turn = LongestTurn(), Turn(), Turn()
    watch.watch()
    for number, (port, conversation) in enumerate(said, 1):
        nodes.attack(port, conversation)
        turn = watch.take()
        if turn.spent_s > longest.spent_s:
            longest = turn
            print(f"attack {number} of {len(said)} on {port}: a turn of {turn}", flush=True)
        nodes.check_alive()
        nodes.check_serves(attacked=port)
        if len(nodes.sent) % RESTART_EVERY == 0:
            nodes.check_restart()
        watch.take()
    print(f"the last one: a turn of {turn}")


if __name__ == "__main__":
    main()
