"""The proxy between nodes where the kernel cannot delay; the other faults stay with the kernel."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from staticfire.faults.model.capabilities import NetworkControl
from staticfire.faults.proxy import ProxyNetwork
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.environments.real.proxied import NodeProxy, ProxiedNetwork


class Asked:
    """A network control that notes what it is asked."""

    def __init__(self, **counters: int) -> None:
        self.asked: list[str] = []
        self._counters = counters

    def __getattr__(self, name: str) -> Any:
        async def note(*_: object, **__: object) -> Any:
            self.asked.append(name)
            return self._counters if name == "traffic_counters" else 0

        return note


async def use(network: ProxiedNetwork) -> dict[str, int]:
    pair = {"source": "a", "target": "b"}
    await network.drop(**pair)
    await network.dropped(**pair)
    await network.restore(**pair)
    await network.delay("a", 5.0)
    await network.limit("a", 1000)
    await network.lose("a", 1.0)
    await network.black_hole("a")
    await network.swallowed("a")
    await network.end_black_hole("a")
    await network.heal()
    return await network.traffic_counters("a")


def test_links_are_the_proxys_and_machines_the_kernels() -> None:
    links, kernel = Asked(delayed=2, limited=0, lost=0), Asked(delayed=0, limited=3, lost=1)
    network = ProxiedNetwork(cast(ProxyNetwork, links), cast(NetworkControl, kernel))
    assert asyncio.run(use(network)) == {"delayed": 2, "limited": 3, "lost": 1}
    assert links.asked == ["drop", "dropped", "restore", "delay", "heal", "traffic_counters"]
    assert kernel.asked == [
        *("limit", "lose", "black_hole", "swallowed", "end_black_hole", "heal", "traffic_counters")
    ]


def test_without_a_proxy_the_kernel_does_everything_and_addresses_are_real() -> None:
    kernel = cast(NetworkControl, Asked())
    proxy = NodeProxy()
    assert proxy.over(kernel) is kernel
    assert proxy.network is None
    assert proxy.reach("producer-1", "198.18.0.2:9876", ServerKind.NAME_SERVER) == "198.18.0.2:9876"


def test_with_one_started_nodes_get_its_addresses() -> None:
    async def main() -> tuple[str, bool]:
        proxy = NodeProxy()
        await proxy.start("127.0.0.1", {"ns-1": "127.0.0.9"})
        try:
            reported = proxy.reach("producer-1", "127.0.0.9:9876", ServerKind.NAME_SERVER)
            return reported, isinstance(proxy.over(cast(NetworkControl, Asked())), ProxiedNetwork)
        finally:
            await proxy.stop()

    reported, is_over = asyncio.run(main())
    assert reported.startswith("127.0.0.1:")
    assert is_over
