"""No simulated code depends on anything but its seed, as far as the lint can see."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.simulation.lint.lint import check_folder

ROOT = Path(__file__).parents[1]
ANYTHING = frozenset({"*"})

# The real world's own doors are not simulated.
NODES = {
    "__main__.py": ANYTHING,
    "runtime/real_env.py": ANYTHING,
    "configuration/real_tls.py": ANYTHING,
    "runtime/io_uring.py": ANYTHING,
    "runtime/real_file.py": ANYTHING,
    "runtime/real_worker.py": ANYTHING,
    "store/reading/reading.py": frozenset(
        {"shared-state"}
    ),  # an empty default that no caller changes
}
# The event loop treats BaseException as asyncio does; the guard and the lint look at the real world.
SIMULATION = {
    "disk/namespace.py": frozenset({"real-world"}),  # os.strerror
    "scheduling/executor.py": frozenset({"swallowed-cancel"}),
    "hosts/guard.py": frozenset({"real-world"}),
    "lint/lint.py": frozenset({"real-world"}),
    "hosts/process.py": frozenset({"swallowed-cancel"}),
    "scheduling/run_queue.py": frozenset({"swallowed-cancel"}),
    "scheduling/tasks.py": frozenset({"swallowed-cancel"}),
}
STORE_CRASH = {
    "cycles.py": frozenset({"real-world"}),  # its workers and its clock are outside of any cycle
}
FOLDERS = [
    ("system_under_test", NODES),
    ("harness/simulation", SIMULATION),
    ("harness/store_crash", STORE_CRASH),
]


# `make lint` runs them, too.
@pytest.mark.slow
@pytest.mark.parametrize(("folder", "exempt"), FOLDERS)
def test_nothing_escapes_the_seed(folder: str, exempt: dict[str, frozenset[str]]) -> None:
    hits = check_folder(ROOT / folder, exempt)
    assert not hits, "\n" + "\n".join(map(str, hits))


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "exempt"), FOLDERS)
def test_no_exemption_is_stale(folder: str, exempt: dict[str, frozenset[str]]) -> None:
    needed = {hit.path for hit in check_folder(ROOT / folder, {})}
    assert sorted(set(exempt) - needed) == []
