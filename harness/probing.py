"""Whether each broker takes sends: asked before the load begins and after the last fault has ended."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from checkers.history import OpType
from harness.clients.port import Outcome
from harness.environments.environment import PROBE, Environment

POLL_S = 0.25
PROBE_PROCESS = 99_999
PROBE_BYTES = 64


class Prober:
    """Sends through the producer that no fault touches, and writes them down like any other send."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._recorder = environment.recorder

    async def probe_all(self, bound_s: float) -> None:
        """Probe every broker whose master is left, and record the answers as `probe`."""
        for master in self._environment.shape.masters:
            if self._environment.is_lost(master.node):
                continue
            name = master.broker_name
            outcome = await self.send_until_served(name, "probe", bound_s)
            type_: OpType = "ok" if self._is_served(name, outcome) else "fail"
            self._recorder.record(
                PROBE_PROCESS, type_, "probe", {"broker": name}, outcome.error, node=PROBE
            )

    async def send_until_served(self, broker_name: str, prefix: str, bound_s: float) -> Outcome:
        """Send until the broker serves, its master is dead or the bound is over; the last outcome.

        Keys are `<prefix>-<broker>-<n>`.
        """
        [master] = [b.node for b in self._environment.shape.masters if b.broker_name == broker_name]
        deadline_ns = self._environment.now_ns() + int(bound_s * 1e9)
        for number in itertools.count():
            outcome = await self._send(broker_name, f"{prefix}-{broker_name}-{number}")
            if self._is_served(broker_name, outcome) or self._environment.now_ns() > deadline_ns:
                return outcome
            if self._environment.is_dead(master):
                return outcome._replace(error=f"{master} ends again and again; {outcome.error}")
            await asyncio.sleep(POLL_S)
        raise AssertionError("count() never ends")

    async def _send(self, broker_name: str, key: str) -> Outcome:
        value: dict[str, Any] = {
            "key": key,
            "topic": self._environment.campaign.probe_topic,
            "size": PROBE_BYTES,
            "broker": broker_name,
            "queue": 0,
        }
        record = self._recorder.record
        record(PROBE_PROCESS, "invoke", "send", value, node=PROBE)
        await self._environment.ready(PROBE)
        outcome = await self._environment.request(PROBE, {"f": "send", **value})
        done = {**value, **outcome.value}
        record(PROBE_PROCESS, outcome.type, "send", done, outcome.error, node=PROBE)
        return outcome

    def _is_served(self, broker_name: str, outcome: Outcome) -> bool:
        """SEND_OK; or as good as it gets where every slave is lost for good."""
        return outcome.type == "ok" or (
            outcome.value.get("status") == "SLAVE_NOT_AVAILABLE"
            and self._has_lost_slaves(broker_name)
        )

    def _has_lost_slaves(self, broker_name: str) -> bool:
        replicas = self._environment.shape.replicas(broker_name)
        slaves = [replica for replica in replicas if not replica.is_master]
        return bool(slaves) and all(self._environment.is_lost(slave.node) for slave in slaves)
