"""A campaign: every option of a run, as data. Printed first, stored with the run, enough to repeat it.

Whatever is not given is drawn from the seed (TigerBeetle's "swarm"): the shape of the cluster, how it keeps its data,
sizes, think times, latencies, fault kinds and the fault plan. Each option is drawn from a stream of its own, so that
giving one leaves the others as they were.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

import tomli_w

from faults.catalogue import FAULTS
from faults.fault import FaultError, PlannedFault, Situation
from faults.plan import draw_plan, from_data, to_data
from faults.shape import BrokerNode, ClusterShape

FLUSH_MODES = ("sync", "async")
REPLICATION_MODES = ("sync", "async", "none")
SEED_MAX = 2**63 - 1
TIME_S_MAX = 86_400


class CampaignError(ValueError):
    """An option of a campaign is not valid. The text names it, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """All that decides a run. Times in seconds of the run's clock, sizes in bytes."""

    seed: int
    workload: str
    time_s: float
    name_servers: int
    slaves: tuple[int, ...]  # slaves of each master; its length is the number of masters
    flush: str
    replication: str
    queues: int  # of the topic, on each broker
    producers: int
    consumers: int
    think_ms: float  # mean pause between two ops of a producer
    payload_bytes: tuple[int, int]
    latency_ms: tuple[float, float]
    fsync_us: int
    log_file_bytes: int
    faults: tuple[str, ...]  # the kinds
    acks_min: int  # fewer acknowledged messages than this are no verdict
    gap_max_s: float  # the longest time a client may go without success under load; 0: no bound
    plan: tuple[PlannedFault, ...]
    defect: str = ""

    @property
    def masters(self) -> int:
        return len(self.slaves)

    @property
    def topic(self) -> str:
        return "StaticfireTopic"

    @property
    def group(self) -> str:
        return "staticfire-group"

    def shape(self) -> ClusterShape:
        return cluster_shape(self.name_servers, self.slaves, self.producers, self.consumers)

    def to_toml(self) -> str:
        table = asdict(self)
        table["plan"] = to_data(self.plan)
        return tomli_w.dumps({"campaign": table})


def cluster_shape(
    name_servers: int, slaves: tuple[int, ...], producers: int, consumers: int
) -> ClusterShape:
    """Node names: ns-1, broker-a-0 (master), broker-a-1 (its first slave), producer-1, consumer-1."""
    brokers = [
        BrokerNode(node=f"{name}-{broker_id}", broker_name=name, broker_id=broker_id)
        for name, count in zip(_broker_names(len(slaves)), slaves, strict=True)
        for broker_id in range(count + 1)
    ]
    return ClusterShape(
        name_servers=_numbered("ns", name_servers),
        brokers=tuple(brokers),
        producers=_numbered("producer", producers),
        consumers=_numbered("consumer", consumers),
    )


def _broker_names(count: int) -> list[str]:
    return [f"broker-{chr(ord('a') + index)}" for index in range(count)]


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(1, count + 1))


# --- drawing -------------------------------------------------------------------------------------


def _choice(random: Random, *choices: Any) -> Any:
    return choices[int(random.random() * len(choices))]


def _span(random: Random, low: float, high: float) -> float:
    return low + (high - low) * random.random()


def _draw_slaves(random: Random, drawn: Mapping[str, Any]) -> tuple[int, ...]:
    if drawn["replication"] == "none":
        return (0,) * int(_choice(random, 1, 2, 2, 3))
    shapes: tuple[tuple[int, ...], ...] = ((1,), (1, 1), (1, 1), (2, 1), (1, 1, 1))
    return shapes[int(random.random() * len(shapes))]


def _draw_replication(random: Random, drawn: Mapping[str, Any]) -> str:
    if "slaves" in drawn:
        return "sync" if any(drawn["slaves"]) else "none"
    return str(_choice(random, "sync", "sync", "sync", "async", "none"))


def _draw_payload(random: Random, drawn: Mapping[str, Any]) -> tuple[int, int]:
    fixed = random.random() < 0.25  # equal sizes line stale records up with fresh ones
    low = int(_span(random, 64, 400))
    return (low, low) if fixed else (low, int(_span(random, 500, 1500)))


def _draw_latency(random: Random, drawn: Mapping[str, Any]) -> tuple[float, float]:
    low = round(_span(random, 0.1, 0.5), 3)
    return (low, round(low * _span(random, 1.5, 8.0), 3))


def _draw_think(random: Random, drawn: Mapping[str, Any]) -> float:
    per_second = _span(random, 36.0, 48.0)  # sends a second, all producers together
    return round(1000.0 * int(drawn["producers"]) / per_second, 1)


def _draw_faults(random: Random, drawn: Mapping[str, Any]) -> tuple[str, ...]:
    """A swarm: each seed knows only some of the kinds, so that none drowns the others."""
    share = _span(random, 0.3, 0.9)
    kinds = [name for name in FAULTS if random.random() < share]
    left = [name for name in FAULTS if name not in kinds]
    while len(kinds) < min(7, len(FAULTS)):
        kinds.append(left.pop(int(random.random() * len(left))))
    return tuple(_shuffled(random, kinds))


def _shuffled(random: Random, items: list[str]) -> list[str]:
    left = list(items)
    return [left.pop(int(random.random() * len(left))) for _ in range(len(left))]


_Draw = Callable[[Random, Mapping[str, Any]], Any]

# In this order: a later option may look at the earlier ones.
_DRAWS: dict[str, _Draw] = {
    "workload": lambda random, drawn: "queue",
    "time_s": lambda random, drawn: 60.0,
    "flush": lambda random, drawn: _choice(random, "sync", "sync", "sync", "async"),
    "replication": _draw_replication,
    "slaves": _draw_slaves,
    "name_servers": lambda random, drawn: _choice(random, 1, 2, 2, 2, 3),
    "queues": lambda random, drawn: _choice(random, 1, 2, 4, 4),
    "producers": lambda random, drawn: _choice(random, 3, 4, 5),
    "consumers": lambda random, drawn: _choice(random, 2, 3),
    "think_ms": _draw_think,
    "payload_bytes": _draw_payload,
    "latency_ms": _draw_latency,
    "fsync_us": lambda random, drawn: int(_span(random, 100, 3000)),
    "log_file_bytes": lambda random, drawn: _choice(random, 65536, 131072, 262144, 1048576),
    "faults": _draw_faults,
    "acks_min": lambda random, drawn: 100,
    "gap_max_s": lambda random, drawn: 0.0,
    "defect": lambda random, drawn: "",
}


def draw_campaign(seed: int, given: Mapping[str, Any]) -> Campaign:
    """Draw every option that is not in `given` from the seed; then the fault plan unless given.

    Raises CampaignError for an unknown option or a value that is not allowed.
    """
    unknown = sorted(set(given) - {field.name for field in fields(Campaign)})
    if unknown:
        raise CampaignError(
            f"unknown campaign option {unknown[0]!r}; there are: {', '.join(_DRAWS)}"
        )
    drawn: dict[str, Any] = dict(given)
    for option, draw in _DRAWS.items():
        if option not in drawn:
            drawn[option] = draw(Random(f"staticfire/{seed}/{option}"), drawn)
    plan = drawn.pop("plan", None)
    campaign = Campaign(**{**drawn, "seed": seed, "plan": plan or ()})
    check_campaign(campaign)
    return campaign if plan is not None else replace(campaign, plan=_draw_plan(campaign))


def _draw_plan(campaign: Campaign) -> tuple[PlannedFault, ...]:
    random = Random(f"staticfire/{campaign.seed}/plan")
    least = max(6, int(campaign.time_s / 10)) if campaign.time_s >= 30 else 0
    count = max(len(campaign.faults), least)
    return draw_plan(random, campaign.faults, count, campaign.time_s, situation(campaign))


def situation(campaign: Campaign) -> Situation:
    return Situation(
        shape=campaign.shape(),
        topic=campaign.topic,
        sync_flush=campaign.flush == "sync",
        replication=campaign.replication,
    )


# --- checking ------------------------------------------------------------------------------------


def _require(condition: bool, option: str, value: object, allowed: str) -> None:
    if not condition:
        raise CampaignError(f"{option} is {value!r}; allowed: {allowed}")


def check_campaign(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first option that is not allowed."""
    c = campaign
    _require(0 <= c.seed <= SEED_MAX, "seed", c.seed, f"0 to {SEED_MAX}")
    _require(c.workload == "queue", "workload", c.workload, "queue")
    _require(1 <= c.time_s <= TIME_S_MAX, "time", c.time_s, f"1 to {TIME_S_MAX} seconds")
    _require(c.flush in FLUSH_MODES, "flush", c.flush, ", ".join(FLUSH_MODES))
    _require(
        c.replication in REPLICATION_MODES,
        "replication",
        c.replication,
        ", ".join(REPLICATION_MODES),
    )
    _require(1 <= c.name_servers <= 9, "name-servers", c.name_servers, "1 to 9")
    _require(1 <= c.masters <= 9, "masters", c.masters, "1 to 9")
    _require(all(0 <= n <= 5 for n in c.slaves), "slaves", c.slaves, "0 to 5 for each master")
    _check_replication(c)
    _check_load(c)
    for kind in c.faults:
        _require(kind in FAULTS, "faults", kind, ", ".join(FAULTS))
    _check_plan(c)


def _check_replication(c: Campaign) -> None:
    if c.replication == "none":
        _require(not any(c.slaves), "slaves", c.slaves, "0 with --replication none")
    else:
        _require(any(c.slaves), "slaves", c.slaves, "at least one with replication")


def _check_load(c: Campaign) -> None:
    _require(1 <= c.queues <= 64, "queues", c.queues, "1 to 64")
    _require(1 <= c.producers <= 64, "producers", c.producers, "1 to 64")
    _require(1 <= c.consumers <= 64, "consumers", c.consumers, "1 to 64")
    _require(0 < c.think_ms <= 60_000, "think_ms", c.think_ms, "above 0, up to 60000")
    _require(c.acks_min >= 0, "acks_min", c.acks_min, "0 or more")
    low, high = c.payload_bytes
    _require(48 <= low <= high <= 4 * 2**20, "payload_bytes", c.payload_bytes, "48 to 4 MiB")
    low_ms, high_ms = c.latency_ms
    _require(0 < low_ms <= high_ms <= 1000, "latency_ms", c.latency_ms, "above 0, up to 1000")
    _require(1 <= c.fsync_us <= 10**7, "fsync_us", c.fsync_us, "1 to 10000000")
    _require(
        max(4096, high + 1024) <= c.log_file_bytes <= 2**30,
        "log_file_bytes",
        c.log_file_bytes,
        "4096 (and the largest message) to 1 GiB",
    )
    _require(0 <= c.gap_max_s <= 86_400, "gap_max_s", c.gap_max_s, "0 (no bound) to 86400 seconds")


def _check_plan(c: Campaign) -> None:
    shape = c.shape()
    nodes = frozenset(shape.servers + shape.clients)
    for planned in c.plan:
        for target in planned.targets:
            _require(
                target in nodes, f"target of fault {planned.fault_id}", target, str(sorted(nodes))
            )
        for name in ("at_s", "duration_s"):
            value = getattr(planned, name)
            _require(
                0 <= value <= TIME_S_MAX,
                f"{name} of fault {planned.fault_id}",
                value,
                f"0 to {TIME_S_MAX}",
            )


# --- reading -------------------------------------------------------------------------------------

_TUPLES = ("slaves", "payload_bytes", "latency_ms", "faults")
_PAIRS = ("tuple[int, int]", "tuple[float, float]")


def read_options(text: str, source: str) -> dict[str, Any]:
    """The options of a campaign file: a TOML table `[campaign]`, whole or in part.

    Raises CampaignError with `source` in the text.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CampaignError(f"{source} is not valid TOML: {error}") from error
    table = document.get("campaign")
    if not isinstance(table, dict):
        raise CampaignError(f"{source} has no [campaign] table")
    return typed_options(table, source)


def typed_options(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The options of a table, checked and with the types of Campaign.

    Raises CampaignError with `source` in the text.
    """
    return {name: _typed(name, value, source) for name, value in table.items()}


def _typed(name: str, value: Any, source: str) -> Any:
    if name == "plan":
        try:
            return from_data(value)
        except (FaultError, AttributeError, TypeError) as error:
            raise CampaignError(f"{source}: {error}") from error
    kinds = {field.name: str(field.type) for field in fields(Campaign)}
    if name not in kinds:
        raise CampaignError(
            f"{source} has an unknown option {name!r}; there are: {', '.join(kinds)}"
        )
    return _checked(name, kinds[name], value, source)


def _checked(name: str, kind: str, value: Any, source: str) -> Any:
    if name not in _TUPLES:
        return _scalar(name, kind, value, source)
    if not isinstance(value, list):
        raise CampaignError(f"{source}: {name} is {value!r}; allowed: a list")
    if kind in _PAIRS and len(value) != 2:
        raise CampaignError(f"{source}: {name} is {value!r}; allowed: two numbers")
    item_kind = kind.removeprefix("tuple[").partition(",")[0]
    return tuple(_scalar(name, item_kind, item, source) for item in value)


_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
}


def _scalar(name: str, kind: str, value: Any, source: str) -> Any:
    types, words = _SCALARS[kind]
    if not isinstance(value, types) or isinstance(value, bool):
        raise CampaignError(f"{source}: {name} is or holds {value!r}; allowed: {words}")
    return value


CAMPAIGNS = Path(__file__).parent / "campaigns"


def campaign_names() -> list[str]:
    return sorted(path.stem for path in CAMPAIGNS.glob("*.toml"))


def load_options(name_or_path: str) -> dict[str, Any]:
    """Options of a named campaign or of a campaign file.

    Raises CampaignError if there is neither.
    """
    path = CAMPAIGNS / f"{name_or_path}.toml"
    if not path.is_file():
        path = Path(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CampaignError(
            f"campaign {name_or_path!r} cannot be read ({reason}); "
            f"give a file or one of: {', '.join(campaign_names())}"
        ) from error
    return read_options(text, str(name_or_path))
