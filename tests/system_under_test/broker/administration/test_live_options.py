"""Every option of code 25 either takes effect at once, everywhere, or waits for the next start as a whole."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from random import Random
from types import FunctionType, MethodType
from typing import Any

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.broker.administration.live_config import (
    BLACK_LIST,
    NEXT_START_FIELDS,
    SYSTEM_PROPERTY_PREFIX,
    BlackListed,
    LiveConfig,
)
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration.config import BROKER_PROPERTIES, Property
from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.broker.bench import HandClock
from tests.system_under_test.store.store_on_disk import SilentLog

CONFIG = BrokerConfig(broker_name="a", listen_host="10.0.0.1", transient_pool=True)
VALUES = ("true", "false", "7", "20000", "30000", "0.5", "10.0.0.3:9876", "1s 2s", "faithful")
VALUES_OF = {  # what goes with the other options of CONFIG
    "brokerRole": "ASYNC_MASTER",
    "brokerId": "0",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeConsumeQueue": "40000",
    "faithfulPolicies": "visible_end",
}
SKIPPED = (Env, SimDisk, HandClock, SilentLog, Random, LiveConfig, asyncio.Future, type)
PLAIN = (int, float, str, bytes, Enum, type(None))


def other_value(name: str, known: Property) -> str:
    """A text for the option that means something else than CONFIG has, if there is one."""
    if name in VALUES_OF:
        return VALUES_OF[name]
    for text in VALUES:
        try:
            if known.parse(text) != getattr(CONFIG, known.field):
                return text
        except ValueError:
            continue
    raise AssertionError(f"no value for {name}")


def make_broker(config: BrokerConfig) -> Broker:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda cost_ns: None)
    env = Env(name="a", storage=disk, clock=HandClock(), random=Random(2), log=SilentLog())
    return Broker(env, config)


def values_in(root: object) -> dict[str, object]:
    """Every plain value that can be reached, by its path; also what functions have caught."""
    found: dict[str, object] = {}
    seen = {id(root)}
    todo: deque[tuple[str, object]] = deque([("broker", root)])
    while todo:
        path, value = todo.popleft()
        for name, member in members_of(value):
            if isinstance(member, PLAIN):
                found[f"{path}.{name}"] = member
            elif id(member) not in seen:
                seen.add(id(member))
                todo.append((f"{path}.{name}", member))
    counts = ("topics._version", "registration._changes")  # of changes
    return {path: v for path, v in found.items() if not any(part in path for part in counts)}


def members_of(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, SKIPPED):
        return
    if isinstance(value, Mapping):
        yield from ((str(key), member) for key, member in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from ((str(number), member) for number, member in enumerate(value))
    elif isinstance(value, MethodType):
        yield "self", value.__self__
    elif isinstance(value, FunctionType):
        for number, cell in enumerate(value.__closure__ or ()):
            yield f"cell{number}", cell.cell_contents
    elif isinstance(value, partial):
        yield "func", value.func
        yield "args", value.args
    else:
        yield from getattr(value, "__dict__", {}).items()
        for kind in type(value).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if hasattr(value, name):
                    yield name, getattr(value, name)


def changed(text: str) -> tuple[dict[str, object], dict[str, str]]:
    """The values of a broker whose options were changed by code 25, and the options that it tells then."""

    async def run() -> tuple[dict[str, object], dict[str, str]]:
        broker = make_broker(replace(CONFIG))
        broker.administration.live_config.update(text)
        return values_in(broker), parse_properties(broker.administration.live_config.text())

    return asyncio.run(run())


def fresh(**options: Any) -> dict[str, object]:
    """The values of a broker that was made with these options."""
    if "role" in options:
        options["role"] = BrokerRole(options["role"])

    async def run() -> dict[str, object]:
        return values_in(make_broker(replace(CONFIG, **options)))

    return asyncio.run(run())


@pytest.mark.needs_sources
def test_the_walk_finds_what_components_have_derived() -> None:
    plain, other = fresh(), fresh(send_queue_wait_s=0.4, region_id="there")
    paths = [path for path, value in plain.items() if other[path] != value]
    assert any("limits.wait_max_ns" in path for path in paths)
    assert any("answers._template" in path for path in paths)


def names_where(wanted: Callable[[str, Property], bool]) -> list[str]:
    return [name for name, known in BROKER_PROPERTIES.items() if wanted(name, known)]


REFUSED = names_where(lambda name, _: name in BLACK_LIST)
IGNORED = names_where(lambda name, _: name.startswith(SYSTEM_PROPERTY_PREFIX))
WAITING = names_where(lambda name, known: name not in IGNORED and known.field in NEXT_START_FIELDS)
LIVE = names_where(lambda name, _: name not in (*REFUSED, *IGNORED, *WAITING))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIVE)
def test_a_live_option_takes_effect_everywhere(name: str) -> None:
    known = BROKER_PROPERTIES[name]
    text = other_value(name, known)
    values, reported = changed(f"{name}={text}")
    assert values == fresh(**{known.field: known.parse(text)})
    assert known.parse(reported[name]) == known.parse(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAITING)
def test_an_option_for_the_next_start_changes_nothing_before(name: str) -> None:
    known = BROKER_PROPERTIES[name]
    text = other_value(name, known)
    values, reported = changed(f"{name}={text}")
    assert values == fresh()
    assert known.parse(reported[name]) == known.parse(text)


@pytest.mark.parametrize("name", REFUSED)
def test_the_black_list_itself_stays(name: str) -> None:
    with pytest.raises(BlackListed):
        changed(f"{name}=other")


@pytest.mark.parametrize("name", IGNORED)
def test_system_properties_are_ignored(name: str) -> None:
    known = BROKER_PROPERTIES[name]
    values, reported = changed(f"{name}={other_value(name, known)}")
    assert values == fresh()
    assert reported.get(name, "") in ("", str(getattr(CONFIG, known.field)))
