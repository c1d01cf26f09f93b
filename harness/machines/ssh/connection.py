"""One SSH connection, for commands and for long-lived processes. paramiko blocks, so all calls are made in threads."""

from __future__ import annotations

import asyncio
import shlex
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import paramiko

from staticfire.faults.linux.executor import TIMEOUT_S, CommandFailed, CommandTimedOut
from staticfire.harness.machines.all_ended import to_its_end
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.machine import LINE_MAX
from staticfire.harness.machines.options import MachineOptions, SshHost

CONNECT_TIMEOUT_S = 10.0
KEEP_ALIVE_S = 10
TRIES = 4  # to connect, and to repeat a command whose connection broke before it was sent
PAUSE_S = 0.5
SESSIONS = 6  # sessions at once on one connection; an sshd allows 10 (MaxSessions)
READ_BYTES = 1 << 16
SIGNALLED = -1  # paramiko's exit status for a process that a signal ended


def connect(host: SshHost, options: MachineOptions) -> paramiko.SSHClient:
    """Open a connection. Raises EnvironmentFailed with the host's error."""
    client = paramiko.SSHClient()
    client.load_system_host_keys()
    if options.known_hosts is not None:
        try:
            client.load_host_keys(options.known_hosts)
        except (OSError, ValueError, paramiko.SSHException) as error:
            raise EnvironmentFailed(
                f"--ssh-known-hosts {options.known_hosts} cannot be read: {error}"
            ) from error
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    for tried in range(TRIES):
        try:
            client.connect(
                host.name,
                port=host.port,
                username=host.user,
                key_filename=options.ssh_key,
                timeout=CONNECT_TIMEOUT_S,
                banner_timeout=CONNECT_TIMEOUT_S,
                allow_agent=options.ssh_key is None,
                look_for_keys=options.ssh_key is None,
            )
        except (paramiko.AuthenticationException, paramiko.BadHostKeyException) as error:
            raise EnvironmentFailed(f"{host} does not let us in: {error}") from error
        except (paramiko.SSHException, OSError) as error:
            if "not found in known_hosts" in str(error):
                raise EnvironmentFailed(
                    f"{host} is not in the known hosts; add it (ssh-keyscan), or give --ssh-known-hosts FILE"
                ) from error
            if tried + 1 == TRIES:  # an sshd refuses some of many new connections (MaxStartups)
                reason = str(error).removeprefix("[Errno None] ") or type(error).__name__
                raise EnvironmentFailed(f"{host} cannot be reached: {reason}") from error
            time.sleep(PAUSE_S * (tried + 1))
        else:
            break
    transport = client.get_transport()
    assert transport is not None
    transport.set_keepalive(KEEP_ALIVE_S)
    return client


class SshExecutor:
    """Implements `staticfire.faults.linux.executor.Executor` on one host. It replaces a broken connection."""

    def __init__(self, host: SshHost, options: MachineOptions) -> None:
        self._host = host
        self._options = options
        self._client: paramiko.SSHClient | None = None
        self._connecting = threading.Lock()
        self._sessions = asyncio.Semaphore(SESSIONS)

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> bytes:
        """Raises CommandFailed, CommandTimedOut, and EnvironmentFailed where the host cannot be reached."""
        async with self._sessions:
            command = asyncio.to_thread(self._run, tuple(argv), input, timeout_s)
            return await to_its_end(asyncio.ensure_future(command))

    def _run(self, argv: tuple[str, ...], input: bytes, timeout_s: float) -> bytes:
        channel = self._open_session()
        try:
            channel.settimeout(timeout_s)
            channel.exec_command(
                f"LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin {shlex.join(argv)}"
            )
            stderr: list[bytes] = []
            # Both streams must be read, since a full window would stop the command.
            listener = threading.Thread(
                target=_read_all, args=(channel.recv_stderr, stderr), daemon=True
            )
            listener.start()
            writer = threading.Thread(target=_write_all, args=(channel, input), daemon=True)
            writer.start()
            stdout: list[bytes] = []
            _read_all(channel.recv, stdout)
            if not channel.status_event.wait(timeout_s):
                raise CommandTimedOut((str(self._host), *argv), timeout_s)
            listener.join(timeout_s)
            status = channel.recv_exit_status()
        except TimeoutError as error:
            raise CommandTimedOut((str(self._host), *argv), timeout_s) from error
        finally:
            channel.close()
        if status != 0:
            said = b"".join(stderr).decode(errors="replace")
            raise CommandFailed((str(self._host), *argv), status, said)
        return b"".join(stdout)

    def _open_session(self) -> paramiko.Channel:
        for tried in range(TRIES):
            transport = self._connected().get_transport()
            try:
                if transport is not None:
                    return transport.open_session(timeout=CONNECT_TIMEOUT_S)
            except (paramiko.SSHException, EOFError, OSError):
                self.close()
                time.sleep(PAUSE_S * tried)
        raise EnvironmentFailed(f"{self._host} lets us in and opens no session")

    def _connected(self) -> paramiko.SSHClient:
        with self._connecting:
            transport = self._client.get_transport() if self._client is not None else None
            if self._client is None or transport is None or not transport.is_active():
                self._client = connect(self._host, self._options)
            return self._client

    def close(self) -> None:
        with self._connecting:
            if self._client is not None:
                self._client.close()
                self._client = None


def _read_all(receive: object, into: list[bytes]) -> None:
    assert callable(receive)
    try:
        while data := receive(READ_BYTES):
            into.append(data)
    except TimeoutError:
        raise
    except (OSError, EOFError):
        return


def _write_all(channel: paramiko.Channel, data: bytes) -> None:
    try:
        channel.sendall(data)
        channel.shutdown_write()
    except (TimeoutError, OSError, EOFError):
        return  # the command did not read all input; its status says whether that is an error


class SshProcess:
    """A process on a host, over a connection of its own."""

    def __init__(
        self, client: paramiko.SSHClient, command: str, log: Path, kill: SshExecutor
    ) -> None:
        """Start it, in a thread. Raises EnvironmentFailed."""
        self._client = client
        self._executor = kill
        self._loop: asyncio.AbstractEventLoop | None = None
        transport = client.get_transport()
        assert transport is not None
        self._channel = transport.open_session(timeout=CONNECT_TIMEOUT_S)
        self._channel.exec_command(f"echo $$; exec {command}")
        first = b""
        while not first.endswith(b"\n"):
            data = self._channel.recv(1)
            if not data:
                said = self._channel.recv_stderr(READ_BYTES).decode(errors="replace")
                raise EnvironmentFailed(f"{command} could not be started: {said}")
            first += data
        self.pid = int(first)
        self._log = log
        self._written: asyncio.Queue[bytes | None] = asyncio.Queue()

    def listen(self) -> None:
        """Begin to read and write, on the event loop."""
        loop = self._loop = asyncio.get_running_loop()
        self.output = asyncio.StreamReader(limit=LINE_MAX)
        self._ended: asyncio.Future[str] = loop.create_future()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._writer = asyncio.create_task(self._write_queued())

    def _read(self) -> None:
        assert self._loop is not None
        errors = threading.Thread(target=self._read_errors, daemon=True)
        errors.start()
        try:
            while data := self._channel.recv(READ_BYTES):
                self._loop.call_soon_threadsafe(self.output.feed_data, data)
        except (OSError, EOFError):
            pass
        errors.join()
        status = self._channel.recv_exit_status()
        how = "a signal" if status == SIGNALLED else f"status {status}"
        self._loop.call_soon_threadsafe(self._finish, how)

    def _read_errors(self) -> None:
        with self._log.open("ab") as log:
            try:
                while data := self._channel.recv_stderr(READ_BYTES):
                    log.write(data)
                    log.flush()
            except (OSError, EOFError):
                return

    def _finish(self, how: str) -> None:
        self.output.feed_eof()
        self._written.put_nowait(None)
        if not self._ended.done():
            self._ended.set_result(how)
        self._client.close()

    @property
    def is_alive(self) -> bool:
        return not self._ended.done()

    def write(self, data: bytes) -> None:
        self._written.put_nowait(data)

    async def _write_queued(self) -> None:
        while (data := await self._written.get()) is not None:
            try:
                await asyncio.to_thread(self._channel.sendall, data)
            except (OSError, EOFError):
                return

    async def wait(self) -> str:
        return await asyncio.shield(self._ended)

    async def signal(self, number: int) -> bool:
        if not self.is_alive:
            return False
        try:
            await self._executor.run(["kill", f"-{int(number)}", str(self.pid)])
        except CommandFailed:
            return False
        return True
