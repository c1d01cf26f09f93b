"""Runs one node, from its configuration to its end; it reports `started` and `settled`.

A started node accepts connections. A settled one is ready for clients: a master takes sends and has all its slaves, a
slave follows its master.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress

from staticfire.harness.local_cluster.changed_options import Config as AnyConfig
from staticfire.harness.local_cluster.changed_options import with_changed_options
from staticfire.harness.local_cluster.errors import NodeRefused, PortInUse
from staticfire.harness.local_cluster.layout import Config
from staticfire.system_under_test.broker.append_pipeline.flush import StoreFailed
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import NameServer
from staticfire.system_under_test.remoting import CannotListen
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.errors import StoreError

STARTED = "started"
SETTLED = "settled"
CHECK_INTERVAL_S = 0.005

Say = Callable[[str], None]


async def serve(env: Env, config: Config, say: Say, *, peers: int) -> None:
    """Serve until cancelled, then stop gracefully.

    `peers` is the number of other running brokers of this name: the slaves of a master, the master of a slave.

    Raises:
        PortInUse: another process listens there.
        NodeRefused: its store, its address or its changed options cannot be used.
        StoreFailed: in one sentence, what ended the node.
    """
    try:
        if isinstance(config, BrokerConfig):
            await _serve_broker(env, _as_changed(config), say, peers=peers)
        else:
            await _serve_name_server(env, _as_changed(config), say)
    except CannotListen as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"port {config.listen_port} or one beside it is in use; choose another port"
            ) from error
        raise NodeRefused(str(error)) from error
    except StoreError as error:
        raise NodeRefused(str(error)) from error


def _as_changed(config: AnyConfig) -> AnyConfig:
    """Return the config with the options that were changed during the node's last run. Raises NodeRefused."""
    try:
        return with_changed_options(config)
    except (ValueError, OSError) as error:
        raise NodeRefused(str(error)) from error


async def _serve_name_server(env: Env, config: NameServerConfig, say: Say) -> None:
    server = NameServer(env, config)
    await server.start()
    say(STARTED)
    say(SETTLED)
    try:
        await server.run()
    finally:
        await server.stop()


async def _serve_broker(env: Env, config: BrokerConfig, say: Say, *, peers: int) -> None:
    broker = Broker(env, config)
    broker.open()
    try:
        await broker.start()
        say(STARTED)
        await _settle(broker, config, peers)
        say(SETTLED)
        error = await broker.failure
    except BaseException:
        await broker.stop()
        raise
    with suppress(StoreFailed):  # a failed store cannot be saved
        await broker.stop()
    raise StoreFailed(f"store {config.store_path} failed: {error}") from error


async def _settle(broker: Broker, config: BrokerConfig, peers: int) -> None:
    while not broker.failure.done() and not _is_settled(broker, config, peers):
        await asyncio.sleep(CHECK_INTERVAL_S)


def _is_settled(broker: Broker, config: BrokerConfig, peers: int) -> bool:
    if config.is_slave:
        return broker.ha.is_following or peers == 0
    return broker.accepts_sends() and broker.ha.replicas >= peers
