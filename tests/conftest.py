"""What every test may count on."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.browser import Browser, browser
from tests.support.needs import LACKS, REQUIRE, required

TESTS = Path(__file__).parent
SLOW_FOLDERS = [TESTS / name for name in ("end_to_end", "fuzz", "parity", "simulation")]

# A job in the background of a shell ignores SIGINT, and so would every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The time of an example depends on the load of the machine, so it has no deadline. Every run has the same examples, so
# no change fails by chance. To look for more: `--hypothesis-profile=search --hypothesis-seed=N`.
settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("steady"), derandomize=False)
settings.load_profile("steady")


def pytest_configure() -> None:
    required()  # a name that is none would make nothing fail


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector. What is made stays, and the collector passes it over from then on.

    Later it rarely looks at everything: with what pytest and hypothesis keep, each such look takes 0.16 s on average.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Item] | None:
    """Make no items of slow tests that `-m` deselects: every worker would make thousands of them, and drop them."""
    expression = collector.config.option.markexpr
    if " or " in expression or "not slow" not in expression.split(" and "):
        return None
    marks = getattr(obj, "pytestmark", []) if name.startswith("test_") else []
    return [] if any(mark.name == "slow" for mark in marks) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {path: _is_slow(path) for path in {item.path for item in items}}
    for item in items:
        if slow[item.path]:
            item.add_marker("slow")


def _is_slow(path: Path) -> bool:
    return any(folder in path.parents for folder in SLOW_FOLDERS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the machine cannot do; fail where CI insists that it can."""
    for name, lacks in LACKS.items():
        for marker in item.iter_markers(f"needs_{name}"):
            reason = lacks(*marker.args)
            if reason and name in required():
                pytest.fail(f"{reason}, and {REQUIRE} asks for {name}", pytrace=False)
            if reason:
                pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a process; each opens a page of its own."""
    with browser(tmp_path_factory.mktemp("profile")) as process:
        yield process
