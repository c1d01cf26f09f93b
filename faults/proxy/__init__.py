"""A proxy that understands RocketMQ: it rewrites routes and registrations, so that all traffic passes through it.

Then it breaks links. It needs no root and works with any RocketMQ that speaks the 4.9 protocol.
"""

from __future__ import annotations

from staticfire.faults.proxy.addresses import AddressError
from staticfire.faults.proxy.link_faults import Direction, LinkFault, LinkFaultError, LinkFaultKind
from staticfire.faults.proxy.network import ProxyNetwork
from staticfire.faults.proxy.ports import NotOurAddress, PortError
from staticfire.faults.proxy.proxy import Proxy, ProxyError
from staticfire.faults.proxy.status import LinkStatus

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
