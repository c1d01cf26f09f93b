"""Runs the fuzz test under atheris: `python -m tests.fuzz.run_atheris -runs=2000` (arguments are libFuzzer's).

Needs `pip install -e '.[fuzz]'`. The corpus is kept nowhere; a finding is printed with the input that made it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["staticfire.system_under_test"]):
    from tests.fuzz.fuzzed_nodes import PORTS, FuzzedNodes

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.peers import CONVERSATIONS

RESTART_EVERY = 500  # messages
SEEDS = 100  # inputs to begin with: Hypothesis makes whole conversations of them
INPUT_SIZE = 4096


def main() -> None:
    nodes = FuzzedNodes()

    @given(port=st.sampled_from(sorted(PORTS)), chunks=CONVERSATIONS)
    def attack(port: str, chunks: list[bytes]) -> None:
        nodes.attack(port, chunks)
        nodes.check_alive()
        nodes.check_serves()
        if len(nodes.sent) % RESTART_EVERY == 0:
            nodes.check_restart()

    with TemporaryDirectory() as corpus:
        for number in range(SEEDS):
            (Path(corpus) / str(number)).write_bytes(Random(number).randbytes(INPUT_SIZE))
        options = [f"-max_len={INPUT_SIZE}", "-len_control=0", *sys.argv[1:], corpus]
        atheris.Setup([sys.argv[0], *options], attack.hypothesis.fuzz_one_input)  # type: ignore[attr-defined]
        atheris.Fuzz()


if __name__ == "__main__":
    main()
