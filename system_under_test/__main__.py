"""`python -m staticfire.system_under_test broker|name-server`: a real node, with asyncio and the real Env.

Prints `ready host:port` on stdout once clients can find the node, or 1 s after it accepts connections; the log goes to
stderr. SIGTERM and SIGINT stop the node gracefully. Exit status: 0 stopped, 1 the node failed, 254 bad arguments, or a
store or an address that cannot be used.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":  # Ctrl-C during the imports ends the process without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NoReturn

from staticfire.system_under_test.broker.append_pipeline.flush import StoreFailed
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.policies.policies import broker_policies
from staticfire.system_under_test.configuration import config, option_values
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.configuration.real_tls import (
    CONFIG_PATH,
    TLS_MODES,
    RealTls,
    read_tls_options,
)
from staticfire.system_under_test.name_server import name_server
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.policies import name_server_policies
from staticfire.system_under_test.remoting import CannotListen
from staticfire.system_under_test.runtime.env import Env, TlsError
from staticfire.system_under_test.runtime.loop_errors import LoopErrors
from staticfire.system_under_test.runtime.real_env import make_env, use_all_descriptors
from staticfire.system_under_test.store.errors import StoreError

EXIT_FAILED = 1
EXIT_BAD_ARGUMENTS = 254
CANNOT_START = (StoreError, CannotListen)  # the store or the address cannot be used
SHOWN_MAX = 100  # characters of a value in an error message

Main = Callable[[Env], Coroutine[object, object, None]]

EXAMPLES = """\
examples:
  python -m staticfire.system_under_test name-server --listen 127.0.0.1 --port 9876
  python -m staticfire.system_under_test broker --broker-name broker-a --name-server 127.0.0.1:9876 \\
      --store /tmp/broker-a --flush sync
  python -m staticfire.system_under_test broker -c conf/broker.properties --port 10931
"""


class Parser(argparse.ArgumentParser):
    """Reports bad arguments as one sentence on stderr."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}; see --help.\n")
        raise SystemExit(EXIT_BAD_ARGUMENTS)


def make_parser() -> Parser:
    """Make the parser. Its result lacks options that are not given, so that a file or a default can set them."""
    parser = Parser(
        prog="python -m staticfire.system_under_test",
        description="Run one node of a RocketMQ 4.9 compatible cluster.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    nodes = parser.add_subparsers(dest="node", required=True, metavar="broker|name-server")
    _add_name_server(nodes)
    _add_broker(nodes)
    return parser


def _add_node(
    nodes: Any,
    name: str,
    *,
    help: str,
    host: Callable[[str], object],
    port: Callable[[str], object],
    default_port: int,
) -> Parser:
    parser: Parser = nodes.add_parser(
        name,
        help=help,
        description=help,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "-c", dest="file", metavar="FILE", help="Java .properties file; options here win over it"
    )
    parser.add_argument(
        "--listen",
        dest="listen_host",
        type=option(host),
        metavar="IP",
        help="address to bind (default 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        dest="listen_port",
        type=option(port),
        metavar="N",
        help=f"port to bind (default {default_port})",
    )
    parser.add_argument(
        "--mode",
        type=option(option_values.mode),
        metavar="|".join(Mode),
        help="hardened (the default) keeps every promise, faithful behaves as RocketMQ 4.9.8 does",
    )
    parser.add_argument(
        "--faithful",
        dest="mode",
        action="store_const",
        const=Mode.FAITHFUL,
        help="the same as --mode faithful: known safety bugs included",
    )
    parser.add_argument(
        "--tls",
        dest="tls_mode",
        type=option(option_values.one_of(TLS_MODES)),
        metavar="|".join(TLS_MODES),
        help="what to do with peers that speak TLS and those that do not (default permissive)",
    )
    parser.add_argument(
        "--tls-config",
        metavar="FILE",
        help=f"keys and certificates, under RocketMQ's names (default {CONFIG_PATH} if it exists)",
    )
    parser.add_argument(
        "--use-tls", action="store_true", help="speak TLS to other nodes (default with enforcing)"
    )
    return parser


def _add_name_server(nodes: object) -> None:
    parser = _add_node(
        nodes,
        "name-server",
        help="the registry of topics and brokers",
        host=option_values.text,
        port=option_values.port,
        default_port=9876,
    )
    parser.add_argument(
        "--store",
        type=option(option_values.text),
        metavar="DIR",
        help="folder of kvConfig.json and namesrv.properties (default ~/namesrv)",
    )


def _add_broker(nodes: object) -> None:
    parser = _add_node(
        nodes,
        "broker",
        help="a master or slave that stores messages",
        host=option_values.reachable_host,
        port=option_values.broker_port,
        default_port=10911,
    )
    parser.add_argument(
        "--broker-name",
        type=option(option_values.name),
        metavar="NAME",
        help="shared by a master and its slaves",
    )
    parser.add_argument(
        "--broker-id",
        type=option(option_values.integer(0, (1 << 63) - 1)),
        metavar="N",
        help="0 is the master, a slave has a number above 0",
    )
    parser.add_argument(
        "--cluster", dest="cluster_name", type=option(option_values.name), metavar="NAME"
    )
    parser.add_argument(
        "--name-server",
        dest="name_servers",
        type=option(option_values.addresses),
        metavar="A;B",
        help="addresses of all name servers, host:port each",
    )
    parser.add_argument(
        "--store",
        dest="store_path",
        type=option(option_values.text),
        metavar="DIR",
        help="folder of the store (default ~/store)",
    )
    parser.add_argument("--flush", choices=["sync", "async"], help="when a send counts as stored")
    parser.add_argument("--role", choices=["sync-master", "async-master", "slave"])
    parser.add_argument(
        "--ha-peers",
        type=option(option_values.addresses),
        metavar="A;B",
        help="replication addresses of the other brokers of this name, asked before sends are taken",
    )


def option(parse: Callable[[str], object]) -> Callable[[str], object]:
    """An argparse type whose error says what is allowed."""

    def convert(value: str) -> object:
        try:
            return parse(value)
        except ValueError as error:
            shown = repr(value if len(value) <= SHOWN_MAX else f"{value[:SHOWN_MAX]}...")
            raise argparse.ArgumentTypeError(f"{shown} cannot be used: {error}") from None

    return convert


def read_fields(
    options: dict[str, Any], known: Mapping[str, config.Property]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields from the file, overridden by the command line, and the unknown names in the file."""
    path = options.pop("file", None)
    if path is None:
        return options, ()
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise config.ConfigError(f"cannot read {path}: {error}") from None
    settings = config.read_settings(text, known)
    return {**settings.fields, **options}, settings.unknown


def name_server_main(options: dict[str, Any]) -> Main:
    """The main function of a name server with these options. Raises ValueError."""
    folder, file = options.pop("store", None), options.get("file")
    fields, unknown = read_fields(options, config.NAME_SERVER_PROPERTIES)
    default = folder or "~/namesrv"
    paths = {
        "kv_config_path": f"{default}/kvConfig.json",
        "config_path": file or f"{default}/namesrv.properties",
    }
    if folder is None:
        paths |= {name: fields[name] for name in paths if name in fields}
    fields |= {name: absolute(path) for name, path in paths.items()}
    settings = NameServerConfig(**{"listen_host": "127.0.0.1", **fields})
    name_server_policies(settings)  # raises for unknown policies

    async def main(env: Env) -> None:
        report_unknown(env, unknown)
        await name_server.main(env, settings, on_ready=print_ready)

    return main


def broker_main(options: dict[str, Any]) -> Main:
    """The main function of a broker with these options. Raises ValueError."""
    from staticfire.system_under_test.broker.append_pipeline import (
        store_config,  # imported here, because a name server does not need it
    )
    from staticfire.system_under_test.broker.assembly import broker
    from staticfire.system_under_test.filters import sql92

    if "flush" in options:
        options["sync_flush"] = options.pop("flush") == "sync"
    file = absolute(options["file"]) if "file" in options else None
    fields, unknown = read_fields(options, config.BROKER_PROPERTIES)
    if "broker_name" not in fields:
        raise config.ConfigError("a broker needs a name: --broker-name, or brokerName in the file")
    if "role" in fields:
        fields["role"] = BrokerRole(fields["role"])
    path = absolute(fields.pop("store_path", "~/store"))
    splitter = fields.get("path_splitter", ",")
    for name in fields.keys() & {"commit_log_path", "read_only_log_paths"}:
        parts = filter(None, map(str.strip, fields[name].split(splitter)))
        fields[name] = splitter.join(map(absolute, parts))
    settings = BrokerConfig(
        **{
            "listen_host": "127.0.0.1",
            # for the hours of deleteWhen and times as text
            "utc_offset_s": time.localtime().tm_gmtoff,
            **fields,
            "store_path": path,
            "config_file": file,
        }
    )
    store_config.make_store_config(settings)  # raises for options that conflict
    broker_policies(settings)  # raises for unknown policies

    def load_parser() -> None:
        sql92.load_parser()
        gc.freeze()

    async def main(env: Env) -> None:
        report_unknown(env, unknown)
        loop = asyncio.get_running_loop()

        def ready(address: str) -> None:
            print_ready(address)
            loop.run_in_executor(None, load_parser)

        await broker.main(env, settings, on_ready=ready)

    return main


def make_tls(options: dict[str, Any], *, replicates: bool) -> RealTls:
    """Make and check TLS from the options. Raises ValueError or TlsError."""
    tls = RealTls(
        read_tls_options(
            options.pop("tls_config", None),
            mode=options.pop("tls_mode", None),
            client_enabled=options.pop("use_tls", False),
        )
    )
    tls.check(replicates=replicates)
    return tls


def absolute(path: str) -> str:
    """The absolute path: `Storage` accepts no others."""
    return str(Path(path).expanduser().absolute())


def report_unknown(env: Env, names: tuple[str, ...]) -> None:
    if names:
        env.log.warning("options without a meaning here", names=list(names))


def print_ready(address: str) -> None:
    print(f"ready {address}", flush=True)


async def run_until_signalled(env: Env, main: Coroutine[object, object, None]) -> None:
    """Run a node; SIGTERM and SIGINT cancel it, which is a stop and not an error."""
    task = asyncio.ensure_future(main)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors(env.log, now_ns=env.clock.monotonic_ns))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        task.result()


def run(arguments: list[str]) -> int:
    """Run the node that the arguments describe and return the exit status."""
    parser = make_parser()
    options = vars(parser.parse_args(arguments))
    node = options.pop("node")
    try:
        tls = make_tls(options, replicates=node == "broker")
        main = name_server_main(options) if node == "name-server" else broker_main(options)
    except (ValueError, TlsError) as error:
        parser.error(str(error))
    use_all_descriptors()
    env = make_env(node, tls)
    gc.freeze()  # scanning the modules would make a garbage collection 20 ms longer
    try:
        asyncio.run(run_until_signalled(env, main(env)))
    except CANNOT_START as error:
        status, failure = EXIT_BAD_ARGUMENTS, str(error)
    except StoreFailed as error:
        status, failure = EXIT_FAILED, str(error)
    except Exception as error:
        status, failure = EXIT_FAILED, f"{type(error).__name__}: {error}"
    else:
        return 0
    env.log.error("node failed", error=failure)
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
