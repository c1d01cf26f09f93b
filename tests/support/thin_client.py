"""A client that says only what docs/client-protocol.md demands: ours, with everything optional taken away.

`python tests/support/thin_client.py producer|consumer`; it runs `staticfire.harness.clients` of the same interpreter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO, Any

FIRST_LINE = {"node", "group", "client_id", "topic", "name_servers"}
REQUEST = {"id", "f", "topic", "key", "size", "broker", "queue", "delay_s", "share"}
RESULT = {"broker", "queue", "queue_offset", "delayed", "failed"}
EMITTED = {"open", "consume"}
MESSAGE_WIDTH = 5  # of a delivered message without its contents


def write(stream: IO[bytes], fields: dict[str, Any]) -> None:
    stream.write(json.dumps(fields).encode() + b"\n")
    stream.flush()


def kept(fields: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in names}


def hand_on(stdin: IO[bytes]) -> None:
    write(stdin, kept(json.loads(sys.stdin.buffer.readline()), FIRST_LINE))
    for line in sys.stdin.buffer:
        write(stdin, kept(json.loads(line), REQUEST))
    stdin.close()


def thinned(fields: dict[str, Any]) -> dict[str, Any] | None:
    """A line without what is optional; None for one that is optional itself."""
    fields.pop("at_ns", None)
    f, value = fields.get("emit"), fields["value"]
    if f == "open":
        return {**fields, "value": {}}
    if f == "consume":
        value["messages"] = [message[:MESSAGE_WIDTH] for message in value["messages"]]
    elif f is None:
        fields["value"] = kept(value, RESULT)
    return fields if f is None or f in EMITTED else None


def main() -> int:
    command = (sys.executable, "-m", "staticfire.harness.clients", sys.argv[1])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        threading.Thread(target=hand_on, args=(client.stdin,), daemon=True).start()
        for line in client.stdout:
            if (said := thinned(json.loads(line))) is not None:
                write(sys.stdout.buffer, said)
        return client.wait()


if __name__ == "__main__":
    sys.exit(main())
