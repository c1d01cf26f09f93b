"""Caches encoded answers to route requests: clients ask twice a minute, and routes seldom change."""

from __future__ import annotations

from collections.abc import Callable

TOPICS_KEPT = 1_000


class EncodedRoutes:
    """A cache of bodies encoded by `encode`, one for each topic."""

    def __init__(self, encode: Callable[[object], bytes]) -> None:
        self._encode = encode
        self._last: dict[str, tuple[dict[str, object], bytes]] = {}  # by topic

    def encoded(self, topic: str, body: dict[str, object]) -> bytes:
        """The bytes of `body`, which must not change afterwards."""
        last = self._last.get(topic)
        if last is not None and last[0] == body:
            return last[1]
        if len(self._last) >= TOPICS_KEPT:
            self._last.clear()
        data = self._encode(body)
        self._last[topic] = body, data
        return data
