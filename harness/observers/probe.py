"""Probes whether each broker takes sends, before the load and after the last fault."""

from __future__ import annotations

import asyncio
import itertools

from staticfire.checkers.model.history import OpType
from staticfire.harness.clients.names import PROBE
from staticfire.harness.clients.port import Outcome
from staticfire.harness.environments.environment import Environment

POLL_S = 0.25
PROBE_PROCESS = 99_999
PROBE_BYTES = 64
NOT_YET = (
    14  # SERVICE_NOT_AVAILABLE: our broker's answer until it has fetched its replicas' records
)
SILENCE = -1  # instead of a code: the broker got a send and did not answer
SILENT_S = 1.0  # an earlier loss was a close by the broker's side, which may be starting


class Prober:
    """Sends through the producer that no fault touches, and records these sends like any other.

    Args:
        refusing_s: at the end of a run, the prober gives a broker up that has refused sends with one code, or left them
            without an answer, for this many seconds; None: it probes until the bound is over. Time in which servers
            boot does not count as silence.
    """

    def __init__(self, environment: Environment, refusing_s: float | None = None) -> None:
        self._environment = environment
        self._recorder = environment.recorder
        self._refusing_s = refusing_s
        self.unserved: list[str] = []  # names of brokers that did not serve when they were probed

    async def probe_all(self, bound_s: float) -> None:
        """Probe every broker whose leader is not lost, and record the outcomes as `probe`."""
        for leader in self._environment.topology.leaders:
            if self._environment.is_lost(leader.node):
                continue
            name = leader.replica_set
            outcome = await self.send_until_served(
                name, "probe", bound_s, refusing_s=self._refusing_s
            )
            type_: OpType = "ok" if self._is_served(name, outcome) else "fail"
            if type_ == "fail":
                self.unserved.append(name)
            self._recorder.record(
                PROBE_PROCESS, type_, "probe", {"broker": name}, outcome.error, node=PROBE
            )

    async def send_until_served(
        self, broker_name: str, prefix: str, bound_s: float, *, refusing_s: float | None = None
    ) -> Outcome:
        """Send until the broker serves, refuses for good, its leader is dead, or the bound is over; return the last
        outcome.

        Keys are `<prefix>-<broker>-<n>`.
        """
        [leader] = [
            b.node for b in self._environment.topology.leaders if b.replica_set == broker_name
        ]
        deadline_ns = self._environment.now_ns() + int(bound_s * 1e9)
        refusal, refused_ns = None, 0  # the code or SILENCE, and the time since when
        for number in itertools.count():
            began_ns, awake_ns = self._environment.now_ns(), self._awake_ns()
            outcome = await self._send(broker_name, f"{prefix}-{broker_name}-{number}")
            code = self._refusal(outcome, began_ns)
            if code != refusal:
                refusal = code
                refused_ns = awake_ns if code == SILENCE else self._environment.now_ns()
            if self._is_served(broker_name, outcome) or self._environment.now_ns() > deadline_ns:
                return outcome
            if self._environment.is_dead(leader):
                return outcome._replace(error=f"{leader} ends again and again; {outcome.error}")
            if self._is_final(refusal, refused_ns, refusing_s):
                what = "no answer" if refusal == SILENCE else f"code {refusal}"
                error = f"{what} for {refusing_s:g} s, no longer waited for: {outcome.error}"
                return outcome._replace(error=error)
            await asyncio.sleep(POLL_S)
        raise AssertionError("count() never ends")

    def _refusal(self, outcome: Outcome, began_ns: int) -> int | None:
        """Return the code with which the broker refused, SILENCE, or None for any other outcome."""
        code: int | None = outcome.value.get("code")
        if code is not None or outcome.type != "info" or "status" in outcome.value:
            return code
        lasted_ns = self._environment.now_ns() - began_ns
        return SILENCE if lasted_ns >= SILENT_S * 1e9 else None

    def _awake_ns(self) -> int:
        """Return the run's clock without the time in which servers booted: until then they cannot answer."""
        return self._environment.now_ns() - self._environment.booting_ns()

    def _is_final(self, refusal: int | None, since_ns: int, refusing_s: float | None) -> bool:
        """Whether the broker has refused with this code, or been silent, for `refusing_s`."""
        if refusing_s is None or refusal in (None, NOT_YET):
            return False
        now_ns = self._awake_ns() if refusal == SILENCE else self._environment.now_ns()
        return now_ns - since_ns > refusing_s * 1e9

    async def _send(self, broker_name: str, key: str) -> Outcome:
        value: dict[str, object] = {
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
        """Whether the outcome is SEND_OK, or the best possible status if every follower is lost for good."""
        return outcome.type == "ok" or (
            outcome.value.get("status") == "SLAVE_NOT_AVAILABLE"
            and self._has_lost_followers(broker_name)
        )

    def _has_lost_followers(self, broker_name: str) -> bool:
        replicas = self._environment.topology.replicas_of(broker_name)
        followers = [replica for replica in replicas if not replica.is_leader]
        return bool(followers) and all(
            self._environment.is_lost(follower.node) for follower in followers
        )
