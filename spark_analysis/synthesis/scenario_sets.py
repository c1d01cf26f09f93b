"""Sets of scenarios as rows: each kind once, begun one second apart; and the facts about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from staticfire.checkers.formats.columnar.manifest import Dictionaries
from staticfire.checkers.formats.columnar.op_tables import OpTables
from staticfire.checkers.formats.columnar.rows import QueueRows, to_table
from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.spark_analysis.synthesis.injected_gaps import GAP_INJECTIONS
from staticfire.spark_analysis.synthesis.injected_scenarios import BREAKING, SCENARIOS
from staticfire.spark_analysis.synthesis.scenario import (
    PROCESSES,
    Reported,
    Scenario,
    ScenarioInjection,
    in_order,
)
from staticfire.spark_analysis.synthesis.workload_profile import NS_PER_S

PROCESSES_FROM = 1 << 21  # above all process numbers of chunks
QUIET_NS = 60 * NS_PER_S  # longer than the half minute for which a fault excuses anomalies


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioSet:
    """The rows of one set."""

    message_events: pa.Table
    ops: pa.Table
    next_index: int
    end_ns: int  # from here on, none of its faults excuses anything


@dataclass(slots=True)
class ScenarioSets:
    """Writes sets one after the other. `event` takes the lines of ops without a message."""

    names: Dictionaries  # without those of scenarios
    sets: int
    event: Callable[[bytes], None]
    expected: list[Reported] = field(default_factory=list)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # fields of RunFacts to add to
    faults: list[FaultFacts] = field(default_factory=list)
    exits: list[NodeExit] = field(default_factory=list)
    observations: list[dict[str, Any]] = field(default_factory=list)
    _tables: OpTables = field(init=False)
    _scenarios: int = 0

    def __post_init__(self) -> None:
        self._tables = OpTables(self.event)

    def expect(self, number: int, index: int, begin_ns: int) -> ScenarioSet:
        """Write set `number` from a time on; before the first set, also the gap scenarios of all sets.

        Raises OSError if an event cannot be written.
        """
        turns = [
            [(number, *expected) for expected in injections.items()]
            for injections in (SCENARIOS, *BREAKING)
        ]
        if number == 0:
            gaps = [
                (of, *expected) for of in range(self.sets) for expected in GAP_INJECTIONS.items()
            ]
            turns = [gaps, *turns]
        for turn in turns:
            scenarios = [
                self._expected(name, inject, of, begin_ns + index * NS_PER_S)
                for index, (of, name, inject) in enumerate(turn)
            ]
            ops = in_order([op for scenario in scenarios for op in scenario.ops], index)
            for op in ops:
                self._tables.add(op)
            index += len(ops)
            begin_ns = ops[-1].time_ns + QUIET_NS
        message_events = to_table(
            self._tables.builder.names(), QueueRows(*self._tables.builder.take())
        )
        return ScenarioSet(
            message_events=self._moved(message_events),
            ops=self._tables.take_ops(),
            next_index=index,
            end_ns=begin_ns,
        )

    def _expected(
        self, name: str, inject: ScenarioInjection, number: int, begin_ns: int
    ) -> Scenario:
        scenario = Scenario(
            name=f"{name.lower().replace('_', '-')}-{number}",
            number=number,
            process=PROCESSES_FROM + PROCESSES * self._scenarios,
            broker="broker-0",
            begin_ns=begin_ns,
        )
        self._scenarios += 1
        inject(scenario, self.sets)
        self.expected += scenario.expected
        self.groups |= scenario.groups
        self.faults += scenario.faults
        self.exits += scenario.exits
        self.observations += scenario.observations
        for of, value in scenario.facts.items():
            self.facts[of] = _together(self.facts.get(of), value)
        return scenario

    def _moved(self, table: pa.Table) -> pa.Table:
        """Shift the ids of topics, groups and queues behind those of the rest, which has no tags and sharding keys."""
        shifts = {
            "topic": len(self.names.topics),
            "queue": len(self.names.queues),
            "group": len(self.names.groups),
        }
        columns = {}
        for name in table.schema.names:
            column = table[name].to_numpy()
            if name in shifts:
                column = column + shifts[name] * (column != UNKNOWN)
            columns[name] = column
        return pa.table(columns, schema=table.schema)

    def dictionaries(self) -> Dictionaries:
        """Return the dictionaries of the whole history."""
        mine, others = self._tables.builder.names(), self.names
        return replace(
            others,
            topics=[*others.topics, *mine.topics],
            groups=[*others.groups, *mine.groups],
            queues=[*others.queues, *mine.logs],
            processes={**others.processes, **self._tables.builder.timeline.nodes},
            tags=mine.tags,
            sharding_keys=mine.sharding_keys,
        )


def _together(one: Any, other: Any) -> Any:
    if one is None:
        return other
    return {**one, **other} if isinstance(one, Mapping) else (*one, *other)
