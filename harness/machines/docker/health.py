"""Docker's health check of a server: a request of the remoting protocol, sent from inside its container.

`docker ps` shows the result. The run itself does not use it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from staticfire.harness.machines.machine import HealthCheck

NS = 1_000_000_000
INTERVAL_NS, TIMEOUT_NS, START_NS = 10 * NS, 3 * NS, 5 * NS
RETRIES = 3
# Each check starts an interpreter, so the program imports next to nothing.
CHECK = """\
import socket, sys
host, port, request, tls = sys.argv[1:]
with socket.create_connection((host, int(port)), 2) as server:
    if tls == "tls":
        import ssl
        server = ssl._create_unverified_context().wrap_socket(server)
    server.sendall(bytes.fromhex(request))
    sys.exit(not server.recv(4))
"""


def health_check(python: str, serving: HealthCheck) -> dict[str, Any]:
    """Return the health check in the form that the engine takes when it makes a container."""
    host, port = serving.address.rsplit(":", 1)
    asked = (host, port, frame(serving.question).hex(), "tls" if serving.tls else "plain")
    return {
        "test": ["CMD", python, "-I", "-S", "-c", CHECK, *asked],
        "interval": INTERVAL_NS,
        "timeout": TIMEOUT_NS,
        "start_period": START_NS,
        "retries": RETRIES,
    }


def frame(code: int) -> bytes:
    """Return a request without fields or body (RocketMQ, RemotingCommand: JSON header)."""
    fields = {"code": code, "flag": 0, "language": "PYTHON", "opaque": 1, "version": 0}
    header = json.dumps(fields).encode()
    return struct.pack(">ii", 4 + len(header), len(header)) + header
