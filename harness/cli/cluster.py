"""`staticfire cluster up`: a RocketMQ on this machine until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.status import BadInput, HarnessError, one_sentence
from staticfire.harness.local_cluster import (
    ClusterError,
    ClusterOptionError,
    LocalCluster,
    NodeRefused,
    PortInUse,
)

DEFAULT_PORT = 9876
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@click.group(short_help="Run a RocketMQ cluster on this machine.")
def cluster() -> None:
    """Run a RocketMQ cluster on this machine, without Java or Docker.

    \b
    Example:
      staticfire cluster up --masters 2 --slaves 1
    """


@cluster.command(short_help="Start name servers and brokers, until Ctrl-C.")
@click.option("--name-servers", default=1, show_default=True, help="Number of name servers.")
@click.option("--masters", default=1, show_default=True, help="Number of masters.")
@click.option(
    "--slaves",
    default="0",
    metavar="N[,N...]",
    help="Number of slaves of each master, such as 2,1. Default: 0.",
)
@click.option("--flush", default="async", help="Flush mode: sync or async (default).")
@click.option("--replication", default="async", help="Replication mode: sync or async (default).")
@click.option(
    "--tls",
    default="permissive",
    show_default=True,
    help="Who may connect: disabled (no TLS), permissive (TLS or not) or enforcing (only TLS).",
)
@click.option(
    "--store",
    metavar="DIR",
    help="Folder that keeps the data. Without it, the data is removed at the end.",
)
@click.option(
    "--port",
    type=int,
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the first name server. Broker ports start 1035 above it. 0: any free ports.",
)
@click.option(
    "--faithful",
    is_flag=True,
    help="Behave as RocketMQ 4.9.8 does, including its known safety bugs.",
)
@click.option(
    "--processes",
    is_flag=True,
    help="Run each node in its own process, so that it can be killed.",
)
@click.option(
    "--broker-property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    help="Broker property, named as in a .properties file, for every broker. May be repeated.",
)
def up(slaves: str, store: str | None, properties: tuple[str, ...], **options: Any) -> None:
    """Start name servers and brokers on 127.0.0.1, and serve until Ctrl-C.

    All nodes share one process unless --processes is given.

    \b
    Example:
      staticfire cluster up
      staticfire cluster up --masters 2 --slaves 2,1 --replication sync --store /tmp/rocketmq
      staticfire admin clusterList -n 127.0.0.1:9876

    Exit status: 0 stopped, 254 bad arguments, a port in use or a store that cannot be used, 255 every node has ended.
    """
    begun_s = _process_started_s()
    # In the other modes the first TLS client causes a certificate to be made.
    if options["tls"] == "enforcing":
        need_extra("tls", "--tls enforcing")
    woken = threading.Event()
    try:
        found = LocalCluster(
            slaves=_slave_counts(slaves),
            store=_folder(store),
            broker_properties=dict(map(_name_and_value, properties)),
            on_end=_report(woken),
            **options,
        )
        with _stopped_by_signals(), found:
            _describe(found, time.time() - begun_s, is_kept=store is not None)
            _serve(found, woken)
    except (ClusterOptionError, PortInUse, NodeRefused) as error:
        raise BadInput(str(error)) from error
    except ClusterError as error:
        raise HarnessError(str(error)) from error


def _slave_counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(
            f"--slaves is {text!r}; allowed: whole numbers with commas, such as 2,1"
        ) from None


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--broker-property is {text!r}; allowed: NAME=VALUE")
    return name.strip(), value.strip()


def _folder(text: str | None) -> Path | None:
    if text is None:
        return None
    if not text or not text.isprintable():
        raise BadInput(f"--store is {text!r}; allowed: the path of a folder")
    return Path(text).expanduser()


def _report(woken: threading.Event) -> Callable[[str], None]:
    """Print on stderr that a node has ended by itself, and wake the waiting task."""

    def report(reason: str) -> None:
        print(f"staticfire: {one_sentence(reason)}", file=sys.stderr, flush=True)
        woken.set()

    return report


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the wait; a second signal does not interrupt the stop that follows."""
    before = {number: signal.signal(number, _stop) for number in STOP_SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    for number in STOP_SIGNALS:
        signal.signal(number, _not_again)
    raise KeyboardInterrupt


def _not_again(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal. SIG_IGN would be inherited by a starting node, which then could not be ended by a signal."""


def _serve(found: LocalCluster, woken: threading.Event) -> None:
    """Wait for Ctrl-C. Raises HarnessError once every node has ended."""
    while True:
        woken.wait()
        woken.clear()
        if all(found.pid(node.name) is None for node in found.nodes):
            raise HarnessError("every node has ended")


def _describe(found: LocalCluster, took_s: float, *, is_kept: bool) -> None:
    width = max(len(node.name) for node in found.nodes)
    for node in found.nodes:
        process = f"  process {found.pid(node.name)}" if found.options.processes else ""
        print(f"{node.name:<{width}}  {node.address:<15}  {node.role}{process}")
    kept = "kept" if is_kept else "removed at the end"
    print(f"ready in {took_s:.2f} s; data in {found.folder} ({kept})")
    print(f'connect   producer.setNamesrvAddr("{found.name_server_address}")')
    print(f"look      staticfire admin clusterList -n '{found.name_server_address}'")
    print("stop      Ctrl-C", flush=True)


def _process_started_s() -> float:
    """Return the start time of this process, since a user's wait includes the start of the interpreter."""
    try:
        ticks = int(
            Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]
        )
        uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):  # no Linux
        return time.time() - time.process_time()
    return time.time() - uptime_s + ticks / 100
