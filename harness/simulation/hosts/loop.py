"""The asyncio event loop of the simulated world: one object that serves all processes.

It covers what a node needs of asyncio: callbacks, timers, tasks, futures, executors, TCP clients and servers. The
context of a call names its process (`run_queue.OWNER`); outside of any process it is the harness.
"""

from __future__ import annotations

import asyncio
import asyncio.events
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack, cast

from staticfire.harness.simulation.network.server import SimServer
from staticfire.harness.simulation.network.tls_session import HANDSHAKE_TIMEOUT_S, TlsSession
from staticfire.harness.simulation.network.transport import open_transport
from staticfire.harness.simulation.scheduling.executor import ExecutorJob
from staticfire.harness.simulation.scheduling.handles import SimHandle, SimTimerHandle, start_timer
from staticfire.harness.simulation.scheduling.run_queue import OWNER, RunQueue
from staticfire.harness.simulation.scheduling.scheduler import Scheduler
from staticfire.harness.simulation.scheduling.tasks import SimFuture, SimTask
from staticfire.harness.simulation.scheduling.timing import FREE, Timing
from staticfire.harness.simulation.scheduling.trace import Trace

if TYPE_CHECKING:
    from random import Random
    from ssl import SSLContext

    from staticfire.harness.simulation.hosts.process import SimProcess
    from staticfire.harness.simulation.network.kernel import Kernel

Arguments = TypeVarTuple("Arguments")
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class SimLoop(asyncio.AbstractEventLoop):
    """`stream(purpose)` returns the random numbers of one purpose; `timing` holds the costs of the processes' loops."""

    def __init__(
        self,
        scheduler: Scheduler,
        trace: Trace,
        timing: Timing,
        stream: Callable[[str], Random],
    ) -> None:
        self.scheduler = scheduler
        self.trace = trace
        self.timing = timing
        self._stream = stream
        self._next_task = count(1).__next__
        self._next_future = count(1).__next__
        self._is_closed = False
        self._is_running = False
        self.queues: list[RunQueue] = []
        self.harness = RunQueue(
            0, scheduler, trace, FREE, self._stream("schedule/harness").random, self._fail
        )
        self.queues.append(self.harness)

    def new_queue(
        self, name: str, on_error: Callable[[str, BaseException | None], None], process: SimProcess
    ) -> RunQueue:
        """Make the run queue of a new process; `name`, which includes the incarnation, selects its random numbers."""
        random = self._stream(f"schedule/{name}").random
        number = len(self.queues)
        queue = RunQueue(number, self.scheduler, self.trace, self.timing, random, on_error, process)
        self.queues.append(queue)
        return queue

    # --- callbacks and timers -----------------------------------------------------------------------

    def call_soon(  # type: ignore[override]  # a handle of ours, which asyncio uses as its own
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> SimHandle:
        if context is None:
            context = copy_context()
        owner = context.get(OWNER) or self.harness
        handle = SimHandle(callback, args, context)
        owner.ready.append(handle)
        if not owner.scheduled:
            owner.wake()
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> SimHandle:
        """Do the same as `call_soon`: executor jobs run on the loop's own thread here."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> SimTimerHandle:
        delay_ns = int(delay * 1e9)
        scheduler = self.scheduler
        when_ns = scheduler.now_ns + scheduler.debt_ns + (delay_ns if delay_ns > 0 else 0)
        return self._start_timer(when_ns, callback, args, context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> SimTimerHandle:
        when_ns = -int(-when * 1e9 // 1)  # rounded up, so that time() >= when in the callback
        return self._start_timer(max(when_ns, self.scheduler.now_ns), callback, args, context)

    def _start_timer(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[object, ...],
        context: Context | None,
    ) -> SimTimerHandle:
        if context is None:
            context = copy_context()
        owner = context.get(OWNER) or self.harness
        timer = SimTimerHandle(when_ns, callback, args, context, owner)
        start_timer(self.scheduler, timer)
        return timer

    def time(self) -> float:
        scheduler = self.scheduler
        return (scheduler.now_ns + scheduler.debt_ns) / 1e9

    # --- futures, tasks, threads --------------------------------------------------------------------

    def create_future(self) -> SimFuture:
        future = SimFuture(loop=self)
        future.number = self._next_future()
        future.owner = OWNER.get(self.harness)
        return future

    def create_task(
        self,
        coro: Coroutine[object, object, object],  # type: ignore[override]  # never a bare generator here
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> SimTask:
        if context is None:
            context = copy_context()
        owner = context.get(OWNER) or self.harness
        task = SimTask(coro, self._next_task(), owner, loop=self, name=name, context=context)
        owner.add_task(task)
        return task

    def run_in_executor(  # type: ignore[override]  # a future of the loop, as BaseEventLoop returns
        self, executor: object, func: Callable[..., object], *args: object
    ) -> asyncio.Future[object]:
        """Run `func` at a seeded instant. Every executor is the default one; jobs do not wait for a free thread."""
        del executor
        owner = OWNER.get(self.harness)
        delay_ns = owner.executor_delay_ns()
        job = ExecutorJob(owner, func, args, copy_context(), self.create_future(), delay_ns)
        job.submit()
        return job.future

    # --- network ------------------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: ProtocolFactory,
        host: Any = None,
        port: Any = None,
        *,
        backlog: int = 100,
        start_serving: bool = True,
        **options: Any,
    ) -> SimServer:
        """Listen. Raises OSError (EADDRINUSE, EADDRNOTAVAIL) as the kernel would."""
        _refuse(options, allowed=("family", "flags", "reuse_address", "reuse_port"))
        server = SimServer(self, self._kernel(), protocol_factory, host, port or 0, backlog)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: ProtocolFactory,
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect, with `ssl` by TLS. Raises OSError (ECONNREFUSED, ETIMEDOUT after 127 s) as the kernel would."""
        context = options.pop("ssl", None)
        _refuse(options, allowed=("family", "proto", "flags"))
        kernel, connected = self._kernel(), self.create_future()
        owner = OWNER.get(self.harness)
        socket = kernel.connect(str(host), int(port), owner, connected, copy_context())
        try:
            await connected
        except BaseException:
            socket.close()
            del connected  # breaks a cycle: it holds the error, whose traceback holds this frame
            raise
        protocol = protocol_factory()
        made = self.create_future()
        transport: asyncio.Transport
        if context is None:
            transport = open_transport(self, socket, protocol, made)
        else:
            transport = session = TlsSession(self, protocol, context, made)
            open_transport(self, socket, session)
        try:
            await made
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def start_tls(  # type: ignore[override]
        self,
        transport: asyncio.Transport,
        protocol: asyncio.BaseProtocol,
        sslcontext: SSLContext,
        *,
        server_side: bool = False,
        ssl_handshake_timeout: float = HANDSHAKE_TIMEOUT_S,
    ) -> asyncio.Transport:
        """Begin the server's side of TLS on a connection that is accepted and not read. Raises OSError (SSLError)."""
        if not server_side:
            raise NotImplementedError("only the server's side: clients begin by create_connection")
        made = self.create_future()
        session = TlsSession(
            self,
            protocol,
            sslcontext,
            made,
            server_side=True,
            handshake_timeout_s=ssl_handshake_timeout,
        )
        transport.set_protocol(session)
        self.call_soon(session.connection_made, transport)
        self.call_soon(transport.resume_reading)
        try:
            await made
        except BaseException:
            transport.close()
            raise
        return session

    def _kernel(self) -> Kernel:
        process = cast("SimProcess | None", OWNER.get(self.harness).process)
        if process is None:
            raise OSError("the harness runs on no host: only processes of a host have a network")
        if not process.alive:
            raise OSError(f"process {process.name} has ended")
        return process.host.kernel

    # --- running ------------------------------------------------------------------------------------

    def run_harness(self, main: Callable[[], Coroutine[Any, Any, Any]], event_limit: int) -> Any:
        """Run `main` as the harness until it is done; return its result or raise its error."""
        if asyncio.events._get_running_loop() is not None:
            raise RuntimeError("a simulated world cannot run inside a running event loop")
        context = copy_context()
        context.run(OWNER.set, self.harness)
        self._is_running = True
        asyncio.events._set_running_loop(self)
        try:
            task = context.run(self.create_task, main(), name="harness/main")
            task.add_done_callback(self._stop, context=context)
            self.scheduler.run(event_limit)
        finally:
            asyncio.events._set_running_loop(None)
            self._is_running = False
        return task.result()

    def go_on_in_child(self) -> None:
        """Set the running loop again after a fork inside `run_harness`: asyncio keeps it for one process id."""
        asyncio.events._set_running_loop(self)

    def _stop(self, _: object) -> None:
        self.scheduler.stopped = True

    def bury(self) -> None:
        """Close the remaining coroutines of every process, without any effect, and then the loop."""
        self._is_closed = True
        self.scheduler.close()
        # otherwise asyncio would make a real loop for a `finally` block
        asyncio.events._set_running_loop(self)
        try:
            for queue in self.queues:
                queue.bury()
        finally:
            asyncio.events._set_running_loop(None)

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def get_debug(self) -> bool:
        return False

    # --- errors -------------------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an uncaught error to its process. Finalizers of futures call this in the context of any process."""
        source = context.get("future") or context.get("task")
        owner = getattr(source, "owner", None) or OWNER.get(None)
        if owner is not None and owner.alive and not self._is_closed:
            owner.on_error(context["message"], context.get("exception"))

    def default_exception_handler(self, context: dict[str, object]) -> None:
        self.call_exception_handler(context)

    def _fail(self, message: str, error: BaseException | None) -> None:
        """End the run with an error that the harness did not catch."""
        self.scheduler.fail(error or RuntimeError(message))


def _refuse(options: dict[str, object], allowed: tuple[str, ...]) -> None:
    given = sorted(name for name, value in options.items() if value is not None)
    refused = [name for name in given if name not in allowed]
    if refused:
        raise NotImplementedError(
            f"{', '.join(refused)}: the simulated network knows TCP, TLS of clients, and start_tls of servers"
        )
