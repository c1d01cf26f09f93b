"""TLS sessions for simulated nodes, with the round trips, sizes and CPU time of TLS 1.3, without cryptography.

OpenSSL draws random numbers and differs between versions, which would make runs differ. The records here have a format
of their own; number and length are about those of a handshake with an RSA certificate. A peer that does not speak TLS
cannot read their content. A record that is changed or out of order raises SSLError. The objects have the interface of
`ssl.SSLContext.wrap_bio`, so the system's server side runs over them unchanged.
"""

from __future__ import annotations

import ssl
import struct
import zlib
from collections.abc import Callable
from typing import Any, cast

from staticfire.system_under_test.runtime.env import TlsMode

HANDSHAKE, ALERT, DATA = 0x16, 0x15, 0x17  # types of records (RFC 8446, 5.1)
HEADER = struct.Struct(">BHH")  # type, version, length
VERSION = 0x0303
SEAL = struct.Struct(">QII")  # number of the record, checksum, zero; as long as the tag of AES-GCM
PLAIN_MAX = 16 * 1024  # of one record
HELLO_BYTES, ANSWER_BYTES, FINISHED_BYTES = 512, 1400, 53  # of the three flights of a handshake
# CPU time on a current processor: RSA signature and key exchange, their other side, and AES-GCM.
SERVER_HANDSHAKE_NS, CLIENT_HANDSHAKE_NS = 900_000, 250_000
RECORD_NS, BYTE_NS = 1_500, 1
_DISGUISE = bytes(byte ^ 0xA5 for byte in range(256))

Charge = Callable[[int], None]


class SimTls:
    """Implements the system's `Tls` for one node; `charge` adds ns to its running callback.

    Args:
        speaks: the node speaks TLS where it connects.
        replicates: it replicates over TLS.
    """

    def __init__(
        self, mode: TlsMode, charge: Charge, *, speaks: bool, replicates: bool = False
    ) -> None:
        self.mode = mode
        self._context = SimTlsContext(charge)
        self._speaks = speaks
        self._replicates = replicates

    @property
    def is_prepared(self) -> bool:
        return True

    def prepare(self) -> None:
        """Do nothing: simulated TLS needs no preparation."""

    def server_context(self) -> ssl.SSLContext:
        return cast(ssl.SSLContext, self._context)

    def client_context(self) -> ssl.SSLContext | None:
        return cast(ssl.SSLContext, self._context) if self._speaks else None

    def replica_server_context(self) -> ssl.SSLContext | None:
        return cast(ssl.SSLContext, self._context) if self._replicates else None

    def replica_client_context(self) -> ssl.SSLContext | None:
        return self.replica_server_context()


class SimTlsContext:
    """A substitute for `ssl.SSLContext`."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
    ) -> SimTlsObject:
        del server_hostname
        return SimTlsObject(incoming, outgoing, self._charge, server_side=server_side)


class SimTlsObject:
    """A substitute for `ssl.SSLObject`: one end of one session."""

    def __init__(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        charge: Charge,
        *,
        server_side: bool,
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._charge = charge
        self._is_server = server_side
        self._raw = bytearray()  # of records that have not arrived in full
        self._plain = bytearray()  # decrypted and not read
        self._sent = self._received = 0  # records
        self._has_greeted = False
        self._is_peer_gone = False  # the peer sent close_notify
        self._is_gone = False

    def do_handshake(self) -> None:
        """Continue the handshake. Raises SSLWantReadError until it is over, SSLError if the peer does not speak TLS."""
        if self._is_server:
            self._greet_as_server()
        else:
            self._greet_as_client()

    def _greet_as_server(self) -> None:
        if not self._has_greeted:
            self._expect_handshake()
            self._charge(SERVER_HANDSHAKE_NS)
            self._has_greeted = True
            self._put(HANDSHAKE, bytes(ANSWER_BYTES))
        self._expect_handshake()

    def _greet_as_client(self) -> None:
        if not self._has_greeted:
            self._has_greeted = True
            self._put(HANDSHAKE, bytes(HELLO_BYTES))
        self._expect_handshake()
        self._charge(CLIENT_HANDSHAKE_NS)
        self._put(HANDSHAKE, bytes(FINISHED_BYTES))

    def _expect_handshake(self) -> None:
        found, _ = self._take()
        if found != HANDSHAKE:
            raise ssl.SSLError(1, f"unexpected record of type {found}")

    def write(self, data: Any) -> int:
        """Encrypt all of `data`; return its length."""
        view = memoryview(data)
        for start in range(0, len(view), PLAIN_MAX):
            self._put(DATA, bytes(view[start : start + PLAIN_MAX]))
        return len(view)

    def read(self, count: int = PLAIN_MAX) -> bytes:
        """Return decrypted bytes; none after the peer's close. Raises SSLWantReadError when more is needed."""
        while not self._plain and not self._is_peer_gone:
            kind, plain = self._take()
            if kind == DATA:
                self._plain += plain
            elif kind == ALERT:
                self._is_peer_gone = True
            else:
                raise ssl.SSLError(1, f"unexpected record of type {kind}")
        data = bytes(self._plain[:count])
        del self._plain[:count]
        return data

    def unwrap(self) -> None:
        """Send close_notify. Raises SSLWantReadError until the peer's has arrived."""
        if not self._is_gone:
            self._is_gone = True
            self._put(ALERT, b"\x01\x00")
        while not self._is_peer_gone:
            kind, _ = self._take()
            self._is_peer_gone = kind == ALERT

    def getpeercert(self) -> None:
        """Return no certificate: none is verified."""

    def cipher(self) -> tuple[str, str, int]:
        return ("SIMULATED_AES_128_GCM_SHA256", "TLSv1.3", 128)

    def compression(self) -> None:
        """Return None: there is no compression."""

    def _put(self, kind: int, plain: bytes) -> None:
        self._charge(RECORD_NS + BYTE_NS * len(plain))
        seal = SEAL.pack(self._sent, zlib.crc32(plain), 0)
        self._sent += 1
        body = plain.translate(_DISGUISE) + seal
        self._outgoing.write(HEADER.pack(kind, VERSION, len(body)) + body)

    def _take(self) -> tuple[int, bytes]:
        """Return type and content of the next record. Raises SSLWantReadError, and SSLError for invalid bytes."""
        self._raw += self._incoming.read()
        if self._raw and self._raw[0] not in (HANDSHAKE, ALERT, DATA):
            raise ssl.SSLError(1, "wrong version number")
        if len(self._raw) < HEADER.size:
            raise ssl.SSLWantReadError
        kind, version, length = HEADER.unpack_from(self._raw)
        if version != VERSION or not SEAL.size <= length <= PLAIN_MAX + SEAL.size:
            raise ssl.SSLError(1, "wrong version number")
        end = HEADER.size + length
        if len(self._raw) < end:
            raise ssl.SSLWantReadError
        body = bytes(self._raw[HEADER.size : end])
        del self._raw[:end]
        plain = body[: -SEAL.size].translate(_DISGUISE)
        number, checksum, _ = SEAL.unpack(body[-SEAL.size :])
        if (number, checksum) != (self._received, zlib.crc32(plain)):
            raise ssl.SSLError(1, "bad record mac")
        self._received += 1
        self._charge(RECORD_NS + BYTE_NS * length)
        return kind, plain
