"""Signatures of requests (RocketMQ: AclSigner, AclUtils.combineRequestContent, AclClientRPCHook)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from staticfire.system_under_test.acl.yaml_values import load_yaml, text_of, truth_of
from staticfire.system_under_test.protocol.command import RemotingCommand

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
FULL_SIGNATURE = "FullSignature"  # not in RocketMQ
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"  # signed by Java's client, left out by its broker

Sign = Callable[[RemotingCommand], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A client's keys (RocketMQ: SessionCredentials)."""

    access_key: str
    secret_key: str
    security_token: str | None = None
    full_signature: bool = False  # not in RocketMQ: sign the code and the names of the fields, too

    @classmethod
    def from_text(cls, text: str) -> Credentials:
        """From YAML like RocketMQ's conf/tools.yml, which has no `fullSignature`. Raises ValueError."""
        document = load_yaml(text)
        keys = document if isinstance(document, dict) else {}
        access_key, secret_key = text_of(keys.get("accessKey")), text_of(keys.get("secretKey"))
        if access_key is None or secret_key is None:
            raise ValueError("accessKey and secretKey are needed, as text or numbers")
        full = truth_of(keys.get("fullSignature"))
        if full is None:
            given = keys["fullSignature"]
            raise ValueError(f"fullSignature is {given!r:.80}; true and false are allowed")
        return cls(access_key=access_key, secret_key=secret_key, full_signature=full)


def signed_content(ext_fields: Mapping[str, str], body: bytes, *, without: str = "") -> bytes:
    """The bytes to sign: values in the order of their names, without the signature, then the body."""
    values = [ext_fields[name] for name in sorted(ext_fields) if name not in (SIGNATURE, without)]
    return "".join(values).encode() + body


def signature_of(content: bytes, secret_key: str) -> str:
    """Base64 of HMAC-SHA1."""
    return base64.b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()


def full_signature_of(request: RemotingCommand, secret_key: str) -> str:
    """Base64 of HMAC-SHA256 over the code, the body, and the names and values of all fields but the signatures.

    RocketMQ's own signature covers neither the request code nor the names of fields nor where a value ends. Here each
    part follows its length, so that no two requests have the same signed content.
    """
    ext_fields = request.ext_fields
    parts = [str(request.code).encode(), request.body]
    for name in sorted(ext_fields):
        if name not in (SIGNATURE, FULL_SIGNATURE):
            parts += name.encode(), ext_fields[name].encode()
    content = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return base64.b64encode(hmac.digest(secret_key.encode(), content, "sha256")).decode()


def signer_of(credentials: Credentials | None) -> Sign | None:
    """The signer for `credentials`; None without them."""
    return None if credentials is None else make_signer(credentials)


def make_signer(credentials: Credentials) -> Sign:
    """The function that a client calls for each request before encoding it."""

    def sign(command: RemotingCommand) -> None:
        ext_fields = command.ext_fields
        ext_fields[ACCESS_KEY] = credentials.access_key
        if credentials.security_token is not None:
            ext_fields[SECURITY_TOKEN] = credentials.security_token
        if credentials.full_signature:
            ext_fields[FULL_SIGNATURE] = full_signature_of(command, credentials.secret_key)
        content = signed_content(ext_fields, command.body, without=UNIQUE_KEY_QUERY)
        ext_fields[SIGNATURE] = signature_of(content, credentials.secret_key)

    return sign
