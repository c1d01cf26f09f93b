"""Keys and certificates of a real node: files that the user names, or a generated test certificate.

RocketMQ: TlsHelper and TlsSystemConfig; the property names are theirs. Unlike RocketMQ, which then goes on without TLS,
a node does not start with a file or key that cannot be used.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from staticfire.system_under_test.configuration.config import Property, read_settings
from staticfire.system_under_test.configuration.option_values import one_of, text, yes_or_no
from staticfire.system_under_test.runtime.env import TlsError, TlsMode

CONFIG_PATH = "/etc/rocketmq/tls.properties"  # tls.config.file
CERTIFICATE_DAYS = 3650


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Comments name RocketMQ's properties. Paths are PEM files."""

    mode: TlsMode = TlsMode.PERMISSIVE  # tls.server.mode
    client_enabled: bool = False  # tls.enable
    test_mode: bool = True  # tls.test.mode.enable: no file is needed, no peer is verified
    server_key: str | None = None  # tls.server.keyPath
    server_key_password: str | None = None  # tls.server.keyPassword
    server_certificate: str | None = None  # tls.server.certPath
    server_verifies: bool = False  # tls.server.authClient
    server_trust: str | None = None  # tls.server.trustCertPath
    client_auth: ssl.VerifyMode = ssl.CERT_NONE  # tls.server.need.client.auth
    client_key: str | None = None  # tls.client.keyPath
    client_key_password: str | None = None  # tls.client.keyPassword
    client_certificate: str | None = None  # tls.client.certPath
    client_verifies: bool = False  # tls.client.authServer
    client_trust: str | None = None  # tls.client.trustCertPath
    # Not in RocketMQ: replication, in both directions; None: without TLS.
    ha_key: str | None = None  # tls.ha.keyPath
    ha_key_password: str | None = None  # tls.ha.keyPassword
    ha_certificate: str | None = None  # tls.ha.certPath
    ha_trust: str | None = None  # tls.ha.trustCertPath

    def __post_init__(self) -> None:
        files = {
            "tls.ha.certPath": self.ha_certificate,
            "tls.ha.keyPath": self.ha_key,
            "tls.ha.trustCertPath": self.ha_trust,
        }
        missing = [name for name, path in files.items() if path is None]
        if missing and (len(missing) < len(files) or self.ha_key_password is not None):
            raise TlsError(
                f"TLS for replication lacks {' and '.join(missing)}; it needs {', '.join(files)}"
            )

    @property
    def replicates_over_tls(self) -> bool:
        return self.ha_certificate is not None


TLS_MODES = {mode.value: mode for mode in TlsMode}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}

TLS_PROPERTIES: Mapping[str, Property] = {
    "tls.server.mode": Property("mode", one_of(TLS_MODES)),
    "tls.enable": Property("client_enabled", yes_or_no),
    "tls.test.mode.enable": Property("test_mode", yes_or_no),
    "tls.server.keyPath": Property("server_key", text),
    "tls.server.keyPassword": Property("server_key_password", text),
    "tls.server.certPath": Property("server_certificate", text),
    "tls.server.authClient": Property("server_verifies", yes_or_no),
    "tls.server.trustCertPath": Property("server_trust", text),
    "tls.server.need.client.auth": Property("client_auth", one_of(CLIENT_AUTH)),
    "tls.client.keyPath": Property("client_key", text),
    "tls.client.keyPassword": Property("client_key_password", text),
    "tls.client.certPath": Property("client_certificate", text),
    "tls.client.authServer": Property("client_verifies", yes_or_no),
    "tls.client.trustCertPath": Property("client_trust", text),
    "tls.ha.keyPath": Property("ha_key", text),
    "tls.ha.keyPassword": Property("ha_key_password", text),
    "tls.ha.certPath": Property("ha_certificate", text),
    "tls.ha.trustCertPath": Property("ha_trust", text),
}


class RealTls:
    """TLS of one process. It makes contexts when they are first needed and when one of their files has changed."""

    def __init__(self, options: TlsOptions) -> None:
        self._options = options
        self._server: tuple[tuple[int, ...], ssl.SSLContext] | None = None
        self._client: tuple[tuple[int, ...], ssl.SSLContext] | None = None
        self._replica: dict[bool, tuple[tuple[int, ...], ssl.SSLContext]] = {}  # by is_server

    @property
    def mode(self) -> TlsMode:
        return self._options.mode

    def check(self, *, replicates: bool = False) -> None:
        """Make all contexts that the options need, so that a mistake shows at the start. Raises TlsError.

        `replicates`: this node is a broker; other nodes need no files for replication.
        """
        options = self._options
        serves = options.mode is not TlsMode.DISABLED and options.server_certificate is not None
        if serves or options.mode is TlsMode.ENFORCING:
            self.server_context()
        self.client_context()
        if replicates:
            self.replica_server_context()
            self.replica_client_context()

    @property
    def is_prepared(self) -> bool:
        """Whether `server_context` is fast, because it need not make a test certificate.

        Making one loads a package, which takes a tenth of a second.
        """
        return self._server is not None or self._options.server_certificate is not None

    def prepare(self) -> None:
        """Several threads may do this at once: the last one wins."""
        with suppress(TlsError):  # `server_context` will say why
            self.server_context()

    def server_context(self) -> ssl.SSLContext:
        """Raises TlsError."""
        options = self._options
        stamp = _stamp(options.server_key, options.server_certificate, options.server_trust)
        if self._server is None or self._server[0] != stamp:
            self._server = stamp, _described("server", lambda: make_server_context(options))
        return self._server[1]

    def client_context(self) -> ssl.SSLContext | None:
        """Raises TlsError."""
        options = self._options
        if not options.client_enabled and options.mode is not TlsMode.ENFORCING:
            return None
        stamp = _stamp(options.client_key, options.client_certificate, options.client_trust)
        if self._client is None or self._client[0] != stamp:
            self._client = stamp, _described("client", lambda: make_client_context(options))
        return self._client[1]

    def replica_server_context(self) -> ssl.SSLContext | None:
        """Raises TlsError."""
        return self._replica_context(is_server=True)

    def replica_client_context(self) -> ssl.SSLContext | None:
        """Raises TlsError."""
        return self._replica_context(is_server=False)

    def _replica_context(self, *, is_server: bool) -> ssl.SSLContext | None:
        options = self._options
        if not options.replicates_over_tls:
            return None
        stamp = _stamp(options.ha_key, options.ha_certificate, options.ha_trust)
        known = self._replica.get(is_server)
        if known is None or known[0] != stamp:
            known = (
                stamp,
                _described(
                    "replication port", lambda: make_replica_context(options, is_server=is_server)
                ),
            )
            self._replica[is_server] = known
        return known[1]


def read_tls_options(
    path: str | None, *, mode: TlsMode | None = None, client_enabled: bool = False
) -> TlsOptions:
    """Options from a file (None: RocketMQ's default path, if that exists) and the command line, which wins.

    Raises:
        ConfigError, or TlsError if the file cannot be read.
    """
    fields: dict[str, object] = {}
    if path is not None or Path(CONFIG_PATH).exists():
        name = path or CONFIG_PATH
        try:
            content = Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TlsError(f"cannot read the TLS settings in {name}: {error}") from None
        fields.update(read_settings(content, TLS_PROPERTIES).fields)
    if mode is not None:
        fields["mode"] = mode
    if client_enabled:
        fields["client_enabled"] = True
    return TlsOptions(**fields)  # type: ignore[arg-type]  # the parsers return what the fields need


def make_server_context(options: TlsOptions) -> ssl.SSLContext:
    """Raises TlsError, OSError or SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if options.server_certificate is not None:
        context.load_cert_chain(
            options.server_certificate, options.server_key, options.server_key_password
        )
    elif options.test_mode:
        _load_test_certificate(context)
    else:
        raise TlsError("tls.server.certPath is missing, and tls.test.mode.enable is false")
    context.verify_mode = options.client_auth
    if options.client_auth is not ssl.CERT_NONE:
        if options.server_trust is None:
            raise TlsError("tls.server.need.client.auth needs tls.server.trustCertPath")
        context.load_verify_locations(options.server_trust)
    elif options.server_verifies and options.server_trust is not None:
        context.load_verify_locations(options.server_trust)
    return context


def make_client_context(options: TlsOptions) -> ssl.SSLContext:
    """Does not check host names, as in RocketMQ: addresses are numeric. Raises TlsError, OSError or SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if options.client_verifies and not options.test_mode:
        if options.client_trust is None:
            raise TlsError("tls.client.authServer needs tls.client.trustCertPath")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(options.client_trust)
    if options.client_certificate is not None:
        context.load_cert_chain(
            options.client_certificate, options.client_key, options.client_key_password
        )
    return context


def make_replica_context(options: TlsOptions, *, is_server: bool) -> ssl.SSLContext:
    """Both sides show a certificate that `tls.ha.trustCertPath` vouches for. Raises OSError or SSLError."""
    assert options.ha_certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # addresses are numeric
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(options.ha_certificate, options.ha_key, options.ha_key_password)
    context.load_verify_locations(options.ha_trust)
    return context


def _described(side: str, make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    try:
        return make()
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"the TLS files of the {side} cannot be used: {error}") from None


def _stamp(*paths: str | None) -> tuple[int, ...]:
    """A value that changes when one of the files changes."""
    return tuple(
        Path(path).stat().st_mtime_ns if Path(path).exists() else 0
        for path in paths
        if path is not None
    )


def _load_test_certificate(context: ssl.SSLContext) -> None:
    certificate, key = make_test_certificate()
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        paths[0].write_bytes(certificate)
        paths[1].write_bytes(key)
        context.load_cert_chain(*paths)


def make_test_certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, as PEM (netty: SelfSignedCertificate). Raises TlsError.

    It uses an elliptic-curve key, unlike netty: an RSA key takes a tenth of a second to make and a millisecond to sign.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise TlsError(
            "a certificate for tests needs the package cryptography (pip install staticfire[tls]);"
            " or name your own in tls.server.certPath and tls.server.keyPath"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
