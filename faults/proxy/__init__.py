"""A proxy for RocketMQ. It rewrites routes and registrations so that all traffic passes through it, and breaks links.

It needs no root and works with any RocketMQ that speaks the 4.9 protocol.
"""

from __future__ import annotations

from staticfire.faults.proxy.core.link_faults import (
    Direction,
    LinkFault,
    LinkFaultError,
    LinkFaultKind,
)
from staticfire.faults.proxy.core.network import ProxyNetwork
from staticfire.faults.proxy.core.ports import NotOurAddress, PortError
from staticfire.faults.proxy.core.proxy import Proxy, ProxyError
from staticfire.faults.proxy.core.status import LinkStatus
from staticfire.faults.proxy.rocketmq.addresses import AddressError

__all__ = [
    "AddressError",
    "Direction",
    "LinkFault",
    "LinkFaultError",
    "LinkFaultKind",
    "LinkStatus",
    "NotOurAddress",
    "PortError",
    "Proxy",
    "ProxyError",
    "ProxyNetwork",
]
