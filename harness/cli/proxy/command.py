"""`staticfire proxy`: a proxy between clients and a RocketMQ, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from typing import Protocol

import click

from staticfire.faults.errors import FaultError
from staticfire.faults.proxy import NotOurAddress, PortError, Proxy, ProxyError
from staticfire.harness.cli.proxy.requests import answer
from staticfire.harness.cli.status import BadInput, HarnessError
from staticfire.harness.clients.line_port import feed_from
from staticfire.harness.clients.lines import LineError, LineSplitter, encode_line
from staticfire.harness.truncated_repr import printable

STANDARD_INPUT = 0
REFRESH_S = 0.5
SEPARATORS = (";", ",")
HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


class View(Protocol):
    """The output of the command."""

    def started(self, proxy: Proxy, frontends: tuple[str, ...]) -> None: ...

    def event(self, text: str) -> None: ...

    def answered(self, fields: dict[str, object]) -> None: ...

    def refresh(self, proxy: Proxy) -> None: ...

    def stopped(self, proxy: Proxy) -> None: ...


class LineView:
    """Prints one JSON object a line, for scripts."""

    def started(self, proxy: Proxy, frontends: tuple[str, ...]) -> None:
        clients = {name: proxy.name_servers_for(name) for name in frontends}
        self._say(
            {"event": "started", "name_servers": proxy.name_server_address, "clients": clients}
        )

    def event(self, text: str) -> None:
        self._say({"event": "reported", "text": text})

    def answered(self, fields: dict[str, object]) -> None:
        self._say(fields)

    def refresh(self, proxy: Proxy) -> None:
        pass

    def stopped(self, proxy: Proxy) -> None:
        self._say({"event": "stopped", "links": [link.to_json() for link in proxy.links()]})

    def _say(self, fields: dict[str, object]) -> None:
        sys.stdout.write(encode_line(fields).decode())
        sys.stdout.flush()


class TableView:
    """Shows a live table of the links on a terminal, with events above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(highlight=False), auto_refresh=False)

    def started(self, proxy: Proxy, frontends: tuple[str, ...]) -> None:
        for name in frontends:
            self.event(f"{name:<9} {proxy.name_servers_for(name)}")
        self.event(f'connect   producer.setNamesrvAddr("{proxy.name_server_address}")')
        self.event('break     {"f": "freeze", "link": "*>broker-a-0"}')
        self.event('mend      {"f": "heal"}')
        self.event("stop      Ctrl-C")
        self._live.start()

    def event(self, text: str) -> None:
        self._live.console.print(printable(text), markup=False, soft_wrap=True)

    def answered(self, fields: dict[str, object]) -> None:
        self.event(encode_line(fields).decode().rstrip())

    def refresh(self, proxy: Proxy) -> None:
        from staticfire.harness.cli.proxy.table import links_table

        self._live.update(links_table(proxy), refresh=True)

    def stopped(self, proxy: Proxy) -> None:
        self.refresh(proxy)
        self._live.stop()


@click.command(short_help="Proxy the clients of any RocketMQ cluster, and break links.")
@click.option(
    "--name-server",
    "name_servers",
    metavar="HOST:PORT",
    multiple=True,
    required=True,
    help="A real name server, or several separated by semicolons. May be repeated.",
)
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 60000),
    default=0,
    show_default=True,
    help="Port of the first name server. Broker ports start 1035 above it. 0: any free ports.",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="Host that the proxy reports to clients. Default: the address by which each client reached it.",
)
@click.option(
    "--client",
    "frontends",
    metavar="NAME",
    multiple=True,
    help="Open separate name server addresses for one client, under this name. May be repeated.",
)
@click.option(
    "--pass-tls", is_flag=True, help="Pass TLS through to name servers, without rewriting routes."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the jitter.")
def proxy(
    name_servers: tuple[str, ...],
    listen: str,
    port: int,
    advertise: str | None,
    frontends: tuple[str, ...],
    pass_tls: bool,
    seed: int,
) -> None:
    """Proxy connections between clients and any RocketMQ cluster, rewrite its routes, and break links, without root.

    Clients use the proxy's name server addresses and need no change. Lines of JSON on standard input break links. On a
    terminal, a live table shows the links; otherwise the command answers each line with one line:

    \b
      {"f": "delay", "link": "*>broker-a-0", "delay_ms": 100, "jitter_ms": 20}
      {"f": "limit", "link": "*>brokers", "direction": "down", "bytes_per_s": 50000}
      {"f": "drop", "client": "my-group", "direction": "up"}
      {"f": "freeze", "server": "name-servers"}
      {"f": "cut", "link": "10.0.0.7>*"}
      {"f": "heal"}, {"f": "heal", "fault": 1}
      {"f": "links"}, {"f": "faults"}, {"f": "servers"}

    \b
    Example:
      staticfire proxy --name-server 127.0.0.1:9876
      staticfire proxy --name-server 10.0.0.1:9876 --listen 0.0.0.0 --port 19876 --client consumer-1

    Exit status: 0 stopped, 254 bad arguments, 255 a port is in use.
    """
    if advertise is not None and HOST.fullmatch(advertise) is None:
        raise BadInput(
            f"--advertise is {advertise!r:.100}; allowed: a host name or an IP address, without a port"
        )
    view: View = TableView() if sys.stdout.isatty() else LineView()
    try:
        found = Proxy(
            _split(name_servers),
            listen=listen,
            port=port,
            advertise=advertise,
            passes_tls=pass_tls,
            seed=seed,
            on_event=view.event,
        )
        asyncio.run(_serve(found, frontends, view))
    except ProxyError as error:
        raise BadInput(f"--name-server: {error}") from error
    except NotOurAddress as error:
        raise BadInput(f"--listen: {error}") from error
    except PortError as error:
        raise HarnessError(str(error)) from error


def _split(name_servers: tuple[str, ...]) -> list[str]:
    text = ";".join(name_servers)
    for separator in SEPARATORS:
        text = text.replace(separator, ";")
    found = [part.strip() for part in text.split(";") if part.strip()]
    if not found:
        raise BadInput(f"--name-server is {text!r:.80}; allowed: host:port")
    return found


async def _serve(found: Proxy, frontends: tuple[str, ...], view: View) -> None:
    with _stopped_by_signals() as stopped:
        async with found:
            view.started(found, frontends)
            try:
                feed_from(STANDARD_INPUT, Requests(found, view, stopped))
                while not stopped.done():
                    view.refresh(found)
                    await asyncio.wait([stopped], timeout=REFRESH_S)
                stopped.result()
            finally:
                view.stopped(found)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[asyncio.Future[None]]:
    """Yield a future that Ctrl-C and SIGTERM resolve."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    # In the background of a terminal, typed input is for another process, and SIGTTIN must not stop this one.
    before = signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield stopped
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGTTIN, before)


class Requests:
    """Reads requests from standard input, which may be empty. The command continues after the end of its input."""

    def __init__(self, found: Proxy, view: View, stopped: asyncio.Future[None]) -> None:
        self._proxy = found
        self._view = view
        self._stopped = stopped
        self._splitter = LineSplitter()

    def feed(self, data: bytes) -> None:
        try:
            for line in self._splitter.feed(data):
                if line.strip():
                    self._view.answered(answer(self._proxy, line))
        except (OSError, FaultError, LineError) as error:
            if not self._stopped.done():
                self._stopped.set_exception(error)

    def end(self) -> None:
        pass
