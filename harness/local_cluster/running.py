"""Running nodes, on the event loop of the cluster or in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TextIO

from staticfire import harness
from staticfire.harness.local_cluster.errors import ClusterError, NodeRefused, PortInUse
from staticfire.harness.local_cluster.layout import Config, Node
from staticfire.harness.local_cluster.serving import SETTLED, STARTED, serve
from staticfire.system_under_test.configuration.real_tls import RealTls
from staticfire.system_under_test.runtime.env import TlsMode
from staticfire.system_under_test.runtime.real_env import JsonLinesLog, RealClock, make_env

STOP_TIMEOUT_S = 20.0
REASON_MAX = 500  # characters

OnEnd = Callable[
    ["RunningNode", str], None
]  # called with the reason; not called for a node that was stopped


class RunningNode(Protocol):
    """A running node, from its start to its end."""

    node: Node
    started: asyncio.Future[None]
    settled: asyncio.Future[None]

    @property
    def pid(self) -> int: ...

    async def stop(self) -> None:
        """Stop gracefully."""
        ...

    async def kill(self) -> None:
        """End at once, as `kill -9` does. Raises ClusterError if this kind of node cannot."""
        ...


class _Milestones:
    """The futures `started` and `settled` of a node, which fail if the node ends first."""

    def __init__(self, node: Node) -> None:
        loop = asyncio.get_running_loop()
        self.node = node
        self.started: asyncio.Future[None] = loop.create_future()
        self.settled: asyncio.Future[None] = loop.create_future()

    def _say(self, milestone: str) -> None:
        promise = {STARTED: self.started, SETTLED: self.settled}[milestone]
        if not promise.done():
            promise.set_result(None)

    def _break_promises(self, error: ClusterError) -> None:
        for promise in (self.started, self.settled):
            if not promise.done():
                promise.set_exception(error)
                promise.exception()  # retrieved here, since a caller may not wait for it


class LoopNode(_Milestones):
    """A node on the loop of this thread."""

    def __init__(
        self, node: Node, log_path: Path, *, peers: int, tls: RealTls, on_end: OnEnd
    ) -> None:
        super().__init__(node)
        self._log = log_path.open("a", encoding="utf-8")
        self._on_end = on_end
        self._task = asyncio.get_running_loop().create_task(self._run(self._log, peers, tls))
        self._stopping = False

    @property
    def pid(self) -> int:
        return os.getpid()

    async def _run(self, log: TextIO, peers: int, tls: RealTls) -> None:
        env = make_env(self.node.name, tls)
        env = replace(env, log=JsonLinesLog(self.node.name, RealClock(), log))
        try:
            await serve(env, self.node.config, self._say, peers=peers)
        except Exception as error:  # it has ended this node, and no other one
            env.log.error("node failed", error=str(error))  # noqa: TRY400
            kind = type(error) if isinstance(error, ClusterError) else ClusterError
            self._break_promises(kind(f"{self.node.name} failed: {error}"))
            if not self._stopping:
                self._on_end(self, f"{self.node.name} failed: {error}")
        finally:
            with contextlib.suppress(OSError):  # the disk is full
                log.close()

    async def stop(self) -> None:
        self._stopping = True
        self._task.cancel()
        await asyncio.wait([self._task])
        self._break_promises(ClusterError(f"{self.node.name} was stopped"))

    async def kill(self) -> None:
        raise ClusterError(
            f"{self.node.name} shares a process with the cluster and cannot be killed; use processes=True"
        )


class ProcessNode(_Milestones):
    """A node in a process of its own, which ends with this process, since it watches its standard input."""

    def __init__(
        self, node: Node, log_path: Path, *, peers: int, tls: RealTls, on_end: OnEnd
    ) -> None:
        super().__init__(node)
        self._log_path = log_path
        self._peers = peers
        self._tls_mode = tls.mode
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    async def _run(self) -> None:
        with self._log_path.open("ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "staticfire.harness.local_cluster.node_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=_environment(),
                start_new_session=True,  # Ctrl-C reaches this process alone, which stops the nodes in order
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(
                pickle.dumps(
                    NodeOrder(self.node.name, self.node.config, self._peers, self._tls_mode)
                )
            )
            await process.stdin.drain()
        reason = ""
        async for line in process.stdout:
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            if word in (STARTED, SETTLED):
                self._say(word)
            else:
                reason = f"{word} {rest}"
        self._ended(await process.wait(), reason)

    def _ended(self, status: int, reason: str) -> None:
        name = self.node.name
        word, _, reason = reason.partition(" ")
        kind = {"port-in-use": PortInUse, "refused": NodeRefused}.get(word, ClusterError)
        if reason:
            text = f"{name} failed: {reason[:REASON_MAX]}"
        elif status < 0:
            text = f"{name} was killed by {signal.Signals(-status).name}"
        else:
            text = f"{name} ended with status {status}"
        self._break_promises(kind(text))
        if not self._stopping:
            self._on_end(self, text)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def _end(self, number: signal.Signals) -> None:
        self._stopping = True
        while self._process is None and not self._task.done():  # until it is made
            await asyncio.sleep(0.001)
        self._signal(number)
        done, _ = await asyncio.wait([self._task], timeout=STOP_TIMEOUT_S)
        if not done:
            self._signal(signal.SIGKILL)
            await asyncio.wait([self._task])
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


class NodeOrder:
    """The role of a process."""

    def __init__(self, name: str, config: Config, peers: int, tls_mode: TlsMode) -> None:
        self.name = name
        self.config = config
        self.peers = peers
        self.tls_mode = tls_mode


def _environment() -> dict[str, str]:
    """Return our environment, in which the project can be imported even if it is not installed."""
    root = str(Path(harness.__path__[0]).parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
