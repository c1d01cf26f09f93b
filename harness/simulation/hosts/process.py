"""One process of a simulated host, from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from staticfire.harness.simulation.hosts.process_log import ProcessLog
from staticfire.harness.simulation.scheduling.run_queue import OWNER, RunQueue
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Env

if TYPE_CHECKING:
    from staticfire.harness.simulation.hosts.host import Host
    from staticfire.harness.simulation.hosts.loop import SimLoop

ExitKind = Literal["returned", "raised", "terminated", "killed", "power cut"]
Main = Callable[[Env], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """The end of a process; `error` only if it raised."""

    kind: ExitKind
    error: BaseException | None = None


class SimProcess:
    """One incarnation of a node. `exit` gets the ExitStatus when it has ended.

    A killed process stops at once: no `finally` block runs and no byte leaves its user-space buffers. The kernel keeps
    sent bytes and the page cache, unless the power fails.
    """

    def __init__(
        self,
        *,
        name: str,
        incarnation: int,
        host: Host,
        loop: SimLoop,
        main: Main,
        env: Env,
        log: ProcessLog,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.host = host
        self.log = log
        self.exit: asyncio.Future[ExitStatus] = loop.create_future()
        self._loop = loop
        self._main = main
        self.main_coroutine: Coroutine[object, object, None] | None = None  # what main has returned
        self._env = env
        self._runner: asyncio.Task[None] | None = None
        self._is_terminating = False
        self.queue: RunQueue = loop.new_queue(f"{name}/{incarnation}", self._report, process=self)
        self.context: Context = copy_context()
        self.context.run(OWNER.set, self.queue)

    @property
    def alive(self) -> bool:
        return self.queue.alive

    @property
    def paused(self) -> bool:
        return self.queue.paused

    def start_after(self, delay_ns: int) -> None:
        """Run main `delay_ns` from now: the time that a new process takes to its first line."""
        self._loop.scheduler.at(self._loop.scheduler.now_ns + delay_ns, self._begin)

    def kill(self) -> None:
        """SIGKILL. The kernel closes its connections (FIN, or RST where bytes were not read)."""
        if self.alive:
            self.log.end(self._loop.scheduler.now_ns)
        self._end(ExitStatus(kind="killed"))

    def terminate(self) -> None:
        """SIGTERM: cancel main, which may clean up. It has no effect before main's first line or a second time."""
        if not self.alive or self._is_terminating:
            return
        self._is_terminating = True
        if self._runner is None:
            self._end(ExitStatus(kind="terminated"))
        else:
            self._runner.cancel()

    def pause(self) -> None:
        """SIGSTOP: the kernel still accepts connections and acknowledges bytes, but no answer comes."""
        self.queue.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.queue.resume()

    def lose_power(self) -> None:
        """Stop at once; the kernel sends no FIN or RST."""
        if self.alive:
            self.log.end(self._loop.scheduler.now_ns)
            self._stop(ExitStatus(kind="power cut"))

    def exit_by(self, error: SystemExit) -> None:
        """End because a callback raised SystemExit."""
        self._end(ExitStatus(kind="raised", error=error))

    def bury(self) -> None:
        """Release main, which may have been left suspended: its last lines must not run later."""
        self.main_coroutine = None
        self._runner = None

    def _begin(self, _: object) -> None:
        if not self.alive:
            return
        if self.paused:
            self.queue.parked.append(lambda: self._begin(None))
            return
        self.context.run(self._loop.create_task, self._run(), name=f"{self.name}/main")

    async def _run(self) -> None:
        """Run main, then cancel the remaining tasks, as asyncio.run does."""
        self._runner = (
            asyncio.current_task()
        )  # not earlier, since a task cancelled before its first turn runs no line
        error: BaseException | None = None
        try:
            self.main_coroutine = self._main(self._env)
            await self.main_coroutine
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # also CancelledError: a terminated main ends with it
            error = raised
        await self._cancel_tasks()
        await asyncio.sleep(0)  # lets its last disk calls end
        self._end(self._status(error))

    def _status(self, error: BaseException | None) -> ExitStatus:
        if self._is_terminating and (error is None or isinstance(error, asyncio.CancelledError)):
            return ExitStatus(kind="terminated")
        if error is None:
            return ExitStatus(kind="returned")
        return ExitStatus(kind="raised", error=error)

    async def _cancel_tasks(self) -> None:
        current = asyncio.current_task()
        left = [task for task in self.queue.tasks if not task.done() and task is not current]
        await end_tasks(left)

    def _end(self, status: ExitStatus) -> None:
        if self.alive:
            self._stop(status)
            self.host.kernel.close_all()

    def _stop(self, status: ExitStatus) -> None:
        self.queue.die()
        self.host.disk.release_locks()
        self._loop.trace.record("exit", self._loop.scheduler.now_ns, self.queue.number, status.kind)
        if not self.exit.done():  # a caller that waits with a timeout cancels it
            self.exit.set_result(status)

    def _report(self, message: str, error: BaseException | None) -> None:
        """Log an error that the process did not catch; real asyncio prints it to stderr and continues."""
        self.log.error(message, error=repr(error))
