"""Names of the harness's own clients, beside those of the load."""

from __future__ import annotations

ADMIN = "admin"  # no fault touches it
PROBE = "probe"  # the producer that probes after the faults whether sends work again
