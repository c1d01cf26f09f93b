"""TLS over real loopback sockets, with certificates made for the tests."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from staticfire.system_under_test.configuration.real_tls import (
    TLS_PROPERTIES,
    RealTls,
    TlsOptions,
    make_test_certificate,
    read_tls_options,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import (
    Connection,
    RemotingClient,
    RemotingError,
    RemotingServer,
)
from staticfire.system_under_test.remoting.turn_share import TURN_S
from staticfire.system_under_test.runtime.env import Env, TlsError, TlsMode
from tests.system_under_test.remoting.manual_loop import MemoryLog

BODY = bytes(range(256)) * 4000  # a megabyte: many TLS records


@cache
def made_pair(_name: str) -> tuple[bytes, bytes]:
    return make_test_certificate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the certificates and keys of a server and of a client, each signed by itself."""
    for name in ("server", "client"):
        certificate, key = made_pair(name)
        (tmp_path / f"{name}.pem").write_bytes(certificate)
        (tmp_path / f"{name}.key").write_bytes(key)
    return tmp_path


def own(folder: Path, **others: Any) -> TlsOptions:
    """Options with the files of the server, without test mode."""
    return TlsOptions(
        test_mode=False,
        server_certificate=str(folder / "server.pem"),
        server_key=str(folder / "server.key"),
        **others,
    )


def with_tls(env: Env, options: TlsOptions | None) -> Env:
    return env if options is None else replace(env, tls=RealTls(options))


def echo(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.SUCCESS, body=request.body)


async def ask(env: Env, server: TlsOptions | None, client: TlsOptions | None) -> bytes:
    """The echo of one request, asked three times."""
    remoting_server = RemotingServer(with_tls(env, server), "127.0.0.1", 0, echo)
    remoting_client = RemotingClient(with_tls(env, client))
    await remoting_server.start()
    address = f"127.0.0.1:{remoting_server.port}"
    try:
        answers = [
            await remoting_client.invoke(address, RemotingCommand.request(1, {}, BODY), 5.0)
            for _ in range(3)
        ]
    finally:
        await remoting_client.close()
        await remoting_server.stop()
    assert {answer.body for answer in answers} == {answers[0].body}
    return answers[0].body


def echoed(env: Env, server: TlsOptions | None, client: TlsOptions | None) -> bytes:
    return asyncio.run(asyncio.wait_for(ask(env, server, client), 60))


CLIENT = TlsOptions(client_enabled=True)
PLAIN = None


@pytest.mark.parametrize(
    ("mode", "plain_works", "tls_works"),
    [
        (TlsMode.DISABLED, True, False),
        (TlsMode.PERMISSIVE, True, True),
        (TlsMode.ENFORCING, False, True),
    ],
)
def test_modes(env: Env, folder: Path, mode: TlsMode, plain_works: bool, tls_works: bool) -> None:
    server = own(folder, mode=mode)
    for client, works in ((PLAIN, plain_works), (CLIENT, tls_works)):
        if works:
            assert echoed(env, server, client) == BODY
        else:
            with pytest.raises(RemotingError):
                echoed(env, server, client)


def test_a_certificate_for_tests_is_made_at_the_first_handshake(env: Env) -> None:
    assert echoed(env, TlsOptions(), CLIENT) == BODY


def test_without_the_library_a_sentence_says_what_to_do(
    env: Env, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(TlsError, match=r"pip install staticfire\[tls\]"):
        RealTls(TlsOptions(mode=TlsMode.ENFORCING)).check()
    RealTls(TlsOptions()).check()  # the options do not ask for TLS
    with pytest.raises(RemotingError):
        echoed(env, TlsOptions(), CLIENT)
    assert "no TLS" in [event for _, event, _ in log.events]


def test_a_client_that_verifies_takes_only_the_certificate_it_trusts(
    env: Env, folder: Path
) -> None:
    client = TlsOptions(client_enabled=True, test_mode=False, client_verifies=True)
    trusting = replace(client, client_trust=str(folder / "server.pem"))
    assert echoed(env, own(folder), trusting) == BODY
    with pytest.raises(RemotingError, match="certificate verify failed"):
        echoed(env, own(folder), replace(client, client_trust=str(folder / "client.pem")))


def test_mutual_authentication(env: Env, folder: Path) -> None:
    server = own(folder, client_auth=ssl.CERT_REQUIRED, server_trust=str(folder / "client.pem"))
    known = replace(
        CLIENT,
        client_certificate=str(folder / "client.pem"),
        client_key=str(folder / "client.key"),
    )
    assert echoed(env, server, known) == BODY
    stranger = replace(
        known,
        client_certificate=str(folder / "server.pem"),
        client_key=str(folder / "server.key"),
    )
    for client in (CLIENT, stranger):
        with pytest.raises(RemotingError):
            echoed(env, server, client)


def test_changed_files_are_read_again(folder: Path) -> None:
    tls = RealTls(own(folder))
    first = tls.server_context()
    assert tls.server_context() is first
    path = folder / "server.pem"
    os.utime(path, ns=(0, 0))
    assert tls.server_context() is not first


def test_a_hello_that_breaks_off_and_garbage_end_the_connection(
    env: Env, folder: Path, log: MemoryLog
) -> None:
    async def scenario() -> None:
        server = RemotingServer(with_tls(env, own(folder)), "127.0.0.1", 0, echo)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01\x00\x05hello")
        await reader.read()  # an alert, then the end
        writer.close()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03")
        writer.close()
        await server.stop()
        assert server.connections == []

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert "TLS failed" in [event for _, event, _ in log.events]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (TlsOptions(mode=TlsMode.ENFORCING, test_mode=False), r"tls\.server\.certPath is missing"),
        (TlsOptions(server_certificate="/nowhere.pem"), "cannot be used"),
        (TlsOptions(client_enabled=True, client_certificate="/nowhere.pem"), "cannot be used"),
        (
            TlsOptions(client_enabled=True, client_verifies=True, test_mode=False),
            r"needs tls\.client\.trustCertPath",
        ),
    ],
)
def test_options_that_cannot_work_are_refused(options: TlsOptions, refusal: str) -> None:
    with pytest.raises(TlsError, match=refusal):
        RealTls(options).check()


def test_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.server.mode=enforcing\ntls.server.need.client.auth=require\n")
    options = read_tls_options(str(path), mode=TlsMode.DISABLED, client_enabled=True)
    assert (options.mode, options.client_enabled) == (TlsMode.DISABLED, True)
    path.write_text("tls.server.mode=sometimes\n")
    with pytest.raises(ValueError, match="disabled, permissive, enforcing are allowed"):
        read_tls_options(str(path))
    with pytest.raises(TlsError, match="cannot read"):
        read_tls_options(str(tmp_path / "missing"))


def test_every_property_sets_a_field() -> None:
    names = {property.field for property in TLS_PROPERTIES.values()}
    assert names == set(TlsOptions.__dataclass_fields__)


REPLICATION = {
    "ha_certificate": "server.pem",
    "ha_key": "server.key",
    "ha_trust": "client.pem",
}


@pytest.mark.parametrize("missing", [*REPLICATION, None])
def test_replication_needs_all_of_its_files(missing: str | None) -> None:
    fields: dict[str, Any] = {name: "x" for name in REPLICATION if name != missing}
    if missing is None:
        fields = {"ha_key_password": "secret"}
    with pytest.raises(TlsError, match=r"^TLS for replication lacks tls\.ha\..*; it needs tls\.ha"):
        TlsOptions(**fields)


def test_replication_is_plain_unless_it_is_configured(folder: Path) -> None:
    plain = RealTls(own(folder))
    plain.check(replicates=True)
    assert plain.replica_server_context() is None
    assert plain.replica_client_context() is None


def test_files_of_replication_that_cannot_be_used_are_refused_by_brokers(folder: Path) -> None:
    files = {field: str(folder / name) for field, name in REPLICATION.items()}
    RealTls(own(folder, **files)).check(replicates=True)
    wrong = RealTls(own(folder, **{**files, "ha_trust": str(folder / "nowhere.pem")}))
    wrong.check()
    with pytest.raises(TlsError, match="the TLS files of the replication port cannot be used"):
        wrong.check(replicates=True)


def test_files_of_replication_that_changed_are_read_again(folder: Path) -> None:
    files = {field: str(folder / name) for field, name in REPLICATION.items()}
    tls = RealTls(own(folder, **files))
    before = tls.replica_server_context()
    assert tls.replica_server_context() is before
    os.utime(folder / "server.pem", (1, 1))
    assert tls.replica_server_context() not in (before, None)


def test_the_first_handshake_waits_for_the_certificate_in_a_thread(env: Env) -> None:
    tls = SlowToPrepare(TlsOptions())
    server = RemotingServer(replace(env, tls=tls), "127.0.0.1", 0, echo)

    async def main() -> None:
        await server.start()
        client = RemotingClient(with_tls(env, TlsOptions(client_enabled=True)))
        address = f"127.0.0.1:{server.port}"
        first = asyncio.ensure_future(client.invoke(address, RemotingCommand.request(1), 5.0))
        await asyncio.to_thread(tls.is_asked.wait)
        plain = RemotingClient(env)  # is served meanwhile
        assert (await plain.invoke(address, RemotingCommand.request(1), 5.0)).code == 0
        assert not first.done()
        tls.may_go_on.set()
        assert (await first).code == 0
        await client.close()
        await plain.close()
        await server.stop()

    asyncio.run(main())


class SlowToPrepare(RealTls):
    """Whose certificate is made when the test says so."""

    def __init__(self, options: TlsOptions) -> None:
        super().__init__(options)
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def prepare(self) -> None:
        self.is_asked.set()
        self.may_go_on.wait()
        super().prepare()


def test_handshakes_share_a_turn_of_the_loop(env: Env) -> None:
    server = RemotingServer(with_tls(env, TlsOptions()), "127.0.0.1", 0, echo)

    async def main() -> None:
        await server.start()
        client = RemotingClient(with_tls(env, TlsOptions(client_enabled=True)))
        loop = asyncio.get_running_loop()
        asked = asyncio.ensure_future(
            client.invoke(f"127.0.0.1:{server.port}", RemotingCommand.request(1, {}, BODY), 5.0)
        )
        while not asked.done():
            server.share.spend(TURN_S, loop)  # others take every turn
            await asyncio.sleep(0)
        assert (await asked).body == BODY
        await client.close()
        await server.stop()

    asyncio.run(main())
