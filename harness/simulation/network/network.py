"""The network between simulated hosts: addresses of hosts, and a link for every ordered pair of hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from staticfire.harness.simulation.network.link import Link
from staticfire.harness.simulation.network.shaper import Shaper
from staticfire.harness.simulation.scheduling.trace import Trace

if TYPE_CHECKING:
    from random import Random

    from staticfire.harness.simulation.network.kernel import Kernel

LATENCY_MIN_NS = 40_000  # a link's base latency is drawn between these two
LATENCY_MAX_NS = 300_000
LOOPBACK_NS = 12_000


class Network:
    """Connects hosts by links. A fault of a pair of hosts affects one direction, and segments when they arrive."""

    def __init__(self, stream: Callable[[str], Random], trace: Trace) -> None:
        self.trace = trace
        self._stream = stream
        self._kernels: dict[str, Kernel] = {}  # by host name
        self._by_address: dict[str, Kernel] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._shapers: dict[str, Shaper] = {}
        # Bounds for new links.
        self.latency_ns = (LATENCY_MIN_NS, LATENCY_MAX_NS)

    def add(self, kernel: Kernel) -> None:
        """Connect a host. Raises ValueError if its name or its address is taken."""
        if kernel.name in self._kernels or kernel.address in self._by_address:
            raise ValueError(f"host {kernel.name!r} at {kernel.address}: name or address is taken")
        self._kernels[kernel.name] = kernel
        self._by_address[kernel.address] = kernel

    def kernel_at(self, address: str) -> Kernel | None:
        """Return the host with this address or name."""
        return self._by_address.get(address) or self._kernels.get(address)

    def link(self, source: str, target: str) -> Link:
        """Return the direction from host `source` to host `target`."""
        found = self._links.get((source, target))
        return found if found is not None else self._add_link(source, target)

    def _add_link(self, source: str, target: str) -> Link:
        random = self._stream(f"link/{source}/{target}").random
        low_ns, high_ns = self.latency_ns
        drawn = low_ns + int(random() * (high_ns - low_ns))
        link = Link(source, target, LOOPBACK_NS if source == target else drawn, random)
        kernel = self._kernels.get(target)
        link.update(is_powered=kernel is not None and kernel.powered)
        self._links[source, target] = link
        return link

    # --- faults -------------------------------------------------------------------------------------

    def drop(self, source: str, target: str) -> None:
        """Drop every segment from `source` that arrives at `target`; the other direction stays open."""
        self._known_link(source, target).update(is_dropping=True)

    def heal_drop(self, source: str, target: str) -> None:
        """End the drop of one direction."""
        self._known_link(source, target).update(is_dropping=False)

    def delay(self, source: str, target: str, extra_ms: float) -> None:
        """Make every segment of one direction take `extra_ms` longer; 0 ends it."""
        self._known_link(source, target).extra_ns = int(extra_ms * 1e6)

    def lose(self, source: str, target: str, share: float) -> None:
        """Lose this share of the segments of one direction; 0 ends it."""
        self._known_link(source, target).loss = share

    def limit(self, source: str, bits_per_s: int) -> None:
        """Limit the rate at which the host sends to all others together; 0 ends it."""
        shaper = self._shapers.setdefault(source, Shaper())
        shaper.limit(bits_per_s)
        for link in self.links_from(source):
            link.shaper = shaper if bits_per_s else None

    def heal(self) -> None:
        """End every drop, delay, loss and limit."""
        for link in self._links.values():
            link.update(is_dropping=False)
            link.extra_ns = 0
            link.loss = 0.0
        for source in self._shapers:
            self.limit(source, 0)

    def links_from(self, source: str) -> list[Link]:
        """Return the directions from this host to every other one."""
        return [self._known_link(source, target) for target in self._kernels if target != source]

    def links_to(self, target: str) -> list[Link]:
        return [self._known_link(source, target) for source in self._kernels if source != target]

    def limited(self, source: str) -> int:
        """Return the number of this host's segments that waited for `limit` so far."""
        shaper = self._shapers.get(source)
        return 0 if shaper is None else shaper.limited

    def dropped(self, source: str, target: str) -> int:
        """Return the number of segments from `source` to `target` that `drop` took so far."""
        return self._known_link(source, target).dropped

    def unreachable(self, source: str, target: str) -> int:
        """Return the number of segments from `source` that found `target` without power so far."""
        return self._known_link(source, target).unreachable

    def power_changed(self, kernel: Kernel) -> None:
        """Open or close the links to a host as its power changes."""
        for link in self._links.values():
            if link.target == kernel.name:
                link.update(is_powered=kernel.powered)

    def _known_link(self, source: str, target: str) -> Link:
        for name in (source, target):
            if name not in self._kernels:
                raise ValueError(f"host {name!r} is unknown; known: {', '.join(self._kernels)}")
        return self.link(source, target)
