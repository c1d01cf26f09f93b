"""A translator for tests: the proxy's address is the real one with something added to the port."""

from __future__ import annotations

from staticfire.faults.proxy.rocketmq.addresses import Address

SHIFT = 10_000
HA_SHIFT = 20_000
REGISTERED_SHIFT = 5_000  # besides
PORT_SIZE = 4


class ShiftedPorts:
    """Implements faults.proxy.translator.Translator; `named` has what frames said of addresses."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}

    def broker(self, address: str, name: str = "") -> str:
        return self._shifted(address, name, SHIFT)

    def ha(self, address: str, name: str = "") -> str:
        return self._shifted(address, name, HA_SHIFT)

    def registered_broker(self, address: str, name: str = "") -> str:
        return self._shifted(address, name, SHIFT + REGISTERED_SHIFT)

    def registered_ha(self, address: str, name: str = "") -> str:
        return self._shifted(address, name, HA_SHIFT + REGISTERED_SHIFT)

    def store_host(self, host: bytes) -> bytes | None:
        port = int.from_bytes(host[-PORT_SIZE:], "big")
        return host[:-PORT_SIZE] + (port + SHIFT).to_bytes(PORT_SIZE, "big") if port else None

    def _shifted(self, text: str, name: str, shift: int) -> str:
        address = Address.try_parse(text)
        if address is None:
            return text
        if name:
            self.named[text] = name
        return str(Address(address.host, address.port + shift))
