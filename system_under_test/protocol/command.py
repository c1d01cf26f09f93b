"""One request or response and its two header encodings (RocketMQ: RemotingCommand, RocketMQSerializable)."""

from __future__ import annotations

import struct

import orjson

from staticfire.system_under_test.protocol.codes import VERSION, LanguageCode
from staticfire.system_under_test.protocol.frames import RemoteProtocolError

JSON = 0
ROCKETMQ = 1

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2

_HEADER_SIZE_MAX = (1 << 24) - 1
# Limits of a received header; RocketMQ has none. Properties, the longest field, have up to 32,767 characters.
READ_HEADER_SIZE_MAX = 1 << 20  # bytes
FIELDS_MAX = 4096  # ext fields; no request of RocketMQ has more than 30
_INT_MAX = (1 << 31) - 1
_INT_MIN = -_INT_MAX - 1
_LANGUAGE_NAMES = {language.value: language.name for language in LanguageCode}
_LANGUAGE_CODES = {language.name: language.value for language in LanguageCode}
_NO_LANGUAGE = LanguageCode.OTHER.value

PREFIX = struct.Struct(">ii")  # length of the rest; serialize type and header length
_unpack_word = struct.Struct(">I").unpack_from  # serialize type and header length
_FIXED = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT = struct.Struct(">i")
_KEY = struct.Struct(">h")
REQUEST_SIZE = 512  # approximate bytes of a request in memory, without its fields and its body
FIELD_SIZE = 100  # approximate bytes that a header field takes besides its characters


class RemotingCommand:
    """One request or response. `ext_fields` is the custom header: text to text."""

    __slots__ = (
        "body",
        "code",
        "ext_fields",
        "flag",
        "language",
        "opaque",
        "remark",
        "serialize_type",
        "version",
    )

    def __init__(
        self,
        code: int,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        language: int = LanguageCode.PYTHON.value,
        version: int = VERSION,
        serialize_type: int = JSON,
    ) -> None:
        self.code = code
        self.ext_fields = {} if ext_fields is None else ext_fields
        self.body = body
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.language = language
        self.version = version
        self.serialize_type = serialize_type

    @staticmethod
    def request(
        code: int,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        oneway: bool = False,
    ) -> RemotingCommand:
        """A new request; the connection that sends it sets `opaque`."""
        return RemotingCommand(code, ext_fields, body, flag=ONEWAY_FLAG if oneway else 0)

    @staticmethod
    def response(
        request: RemotingCommand,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """The answer to `request`: same opaque, same header encoding."""
        return RemotingCommand(
            code,
            ext_fields,
            body,
            opaque=request.opaque,
            flag=RESPONSE_FLAG,
            remark=remark,
            serialize_type=request.serialize_type,
        )

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    def encode(self) -> bytes:
        """The whole frame, length included."""
        header = self._json_header() if self.serialize_type == JSON else self._binary_header()
        size = len(header)
        if size > _HEADER_SIZE_MAX:
            raise ValueError(f"header is {size} bytes; allowed: up to {_HEADER_SIZE_MAX}")
        prefix = PREFIX.pack(4 + size + len(self.body), self.serialize_type << 24 | size)
        return b"".join((prefix, header, self.body))

    def _json_header(self) -> bytes:
        fields: dict[str, object] = {"code": self.code}
        if self.ext_fields:
            fields["extFields"] = self.ext_fields
        fields["flag"] = self.flag
        fields["language"] = _LANGUAGE_NAMES.get(self.language, "OTHER")
        fields["opaque"] = self.opaque
        if self.remark is not None:
            fields["remark"] = self.remark
        fields["serializeTypeCurrentRPC"] = "JSON"
        fields["version"] = self.version
        return orjson.dumps(fields)

    def _binary_header(self) -> bytes:
        remark = b"" if self.remark is None else self.remark.encode()
        ext = b"".join([part for item in self.ext_fields.items() for part in _encode_entry(*item)])
        fixed = _FIXED.pack(
            self.code, self.language, self.version, self.opaque, self.flag, len(remark)
        )
        return b"".join((fixed, remark, _INT.pack(len(ext)), ext))

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        about = f"code={self.code} opaque={self.opaque} ext={self.ext_fields}"
        return f"<{kind} {about} remark={self.remark!r} body={len(self.body)} bytes>"


def _encode_entry(key: str, value: str) -> tuple[bytes, bytes, bytes, bytes]:
    key_bytes, value_bytes = key.encode(), value.encode()
    return _KEY.pack(len(key_bytes)), key_bytes, _INT.pack(len(value_bytes)), value_bytes


def decode_command(frame: bytes) -> RemotingCommand:
    """Decode a frame without its length field. Values of the custom header become text.

    Raises RemoteProtocolError: the header is cut off, of an unknown kind or malformed.
    """
    if len(frame) < 4:
        raise RemoteProtocolError(f"frame is {len(frame)} bytes; at least 4 are needed")
    (word,) = _unpack_word(frame)
    serialize_type, end = word >> 24, 4 + (word & _HEADER_SIZE_MAX)
    if end > len(frame):
        raise RemoteProtocolError(f"header ends at {end}, the frame at {len(frame)}")
    if end - 4 > READ_HEADER_SIZE_MAX:
        raise RemoteProtocolError(
            f"header is {end - 4} bytes; allowed: up to {READ_HEADER_SIZE_MAX}"
        )
    if serialize_type == JSON:
        return _decode_json(frame[4:end], frame[end:])
    if serialize_type == ROCKETMQ:
        return _decode_binary(frame[4:end], frame[end:])
    raise RemoteProtocolError(f"serialize type is {serialize_type}; allowed: 0 or 1")


def _decode_json(header: bytes, body: bytes) -> RemotingCommand:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(f"header is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise RemoteProtocolError(f"header is a JSON {type(fields).__name__}; expected an object")
    get = fields.get
    code, opaque, flag, version = (
        get("code", 0),
        get("opaque", 0),
        get("flag", 0),
        get("version", 0),
    )
    # One check of all four: a call for each would cost a send half a microsecond.
    if not (
        type(code) is type(opaque) is type(flag) is type(version) is int
        and 0 <= code | opaque | flag | version <= _INT_MAX
    ):
        _check_numbers(fields)
    ext, remark, language = get("extFields"), get("remark"), get("language")
    return RemotingCommand(
        code,
        _texts(ext) if ext else {},
        body,
        opaque=opaque,
        flag=flag,
        remark=None if remark is None else str(remark),
        language=_language(language),
        version=version,
    )


def _check_numbers(fields: dict[str, object]) -> None:
    """Raise RemoteProtocolError for the first field that is not a 32-bit integer; negative ones are allowed."""
    for name in ("code", "opaque", "flag", "version"):
        value = fields.get(name, 0)
        if type(value) is not int or not _INT_MIN <= value <= _INT_MAX:
            raise RemoteProtocolError(
                f"header field {name} is {value!r:.80}; expected a 32-bit integer"
            )


def _language(name: object) -> int:
    if name is None:
        return LanguageCode.JAVA.value  # what a Java peer assumes, too
    return _LANGUAGE_CODES.get(name, _NO_LANGUAGE) if isinstance(name, str) else _NO_LANGUAGE


def _texts(ext: object) -> dict[str, str]:
    """Text to text; the C++ client sends numbers. Nulls are dropped."""
    if not isinstance(ext, dict):
        raise RemoteProtocolError(f"extFields is a {type(ext).__name__}; expected an object")
    if len(ext) > FIELDS_MAX:
        raise RemoteProtocolError(_too_many(len(ext)))
    for value in ext.values():
        if type(value) is not str:
            return _made_texts(ext)
    return ext


def _too_many(fields: int) -> str:
    return f"header has {fields} ext fields; allowed: up to {FIELDS_MAX}"


def _made_texts(ext: dict[str, object]) -> dict[str, str]:
    return {
        key: value if type(value) is str else _text(value)
        for key, value in ext.items()
        if value is not None
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise RemoteProtocolError(f"an ext field holds a {type(value).__name__}; expected text")
    return str(value)


def _decode_binary(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
        position = _FIXED.size + _checked(remark_size, len(header) - _FIXED.size, "remark")
        remark = header[_FIXED.size : position].decode() if remark_size else None
        (ext_size,) = _INT.unpack_from(header, position)
        position += 4
        _checked(ext_size, len(header) - position, "ext fields")
        ext = _decode_entries(header, position, position + ext_size)
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"binary header is malformed: {error}") from error
    return RemotingCommand(
        code,
        ext,
        body,
        opaque=opaque,
        flag=flag,
        remark=remark,
        language=language if language in _LANGUAGE_NAMES else _NO_LANGUAGE,
        version=version,
        serialize_type=ROCKETMQ,
    )


def _checked(size: int, available: int, what: str) -> int:
    if not 0 <= size <= available:
        raise RemoteProtocolError(f"{what} of {size} bytes; {available} are left")
    return size


def _decode_entries(header: bytes, position: int, end: int) -> dict[str, str]:
    """Drops entries without key or value, which a Java peer decodes to null."""
    fields: dict[str, str] = {}
    entries = 0
    while position < end:
        entries += 1  # dropped and repeated ones count, too
        if entries > FIELDS_MAX:
            raise RemoteProtocolError(_too_many(entries))
        (key_size,) = _KEY.unpack_from(header, position)
        key_end = position + 2 + _checked(key_size, end - position - 2, "key")
        (value_size,) = _INT.unpack_from(header, key_end)
        value_end = key_end + 4 + _checked(value_size, end - key_end - 4, "value")
        if key_size and value_size:
            fields[header[position + 2 : key_end].decode()] = header[
                key_end + 4 : value_end
            ].decode()
        position = value_end
    return fields


def size_of(request: RemotingCommand) -> int:
    """Approximate bytes that a request takes in memory."""
    fields = request.ext_fields.items()
    return (
        REQUEST_SIZE
        + len(request.body)
        + sum(FIELD_SIZE + len(name) + len(value) for name, value in fields)
    )
