"""Rewrites the frames of one connection: replaces addresses, and keeps everything else byte for byte.

It does not change opaque ids, flags and bodies of messages. It changes no request of a client to a broker, so the
signatures over them stay valid; of the message ids that clients send back, brokers use the offset alone.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.faults.proxy.rocketmq.bodies import rewrite_body
from staticfire.faults.proxy.rocketmq.identity import ClientIdentity
from staticfire.faults.proxy.rocketmq.messages import rewrite_message_ids, rewrite_records
from staticfire.faults.proxy.rocketmq.translator import Translator
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import LENGTH_SIZE, RemoteProtocolError

HEADER_AT = 2 * LENGTH_SIZE  # after the length, and the word with the header's encoding and size
MASTER = "0"
# Fields of requests in which a broker names itself: 103, 104, 322, and the heartbeats of 5.x.
BROKER_FIELD, HA_FIELD = "brokerAddr", "haServerAddr"
# Fields in which a broker learns of others: answers to 103, and requests of 5.x (905, 906).
REPORTED_BROKERS = ("masterAddr", "masterAddress", "minBrokerAddr", "offlineBrokerAddr")
# Requests of brokers whose bodies are records. Other bodies may hold any data.
WITH_RECORD = (RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY)
REPORTED_HA = ("haServerAddr", "masterHaAddress", "haBrokerAddr")


class Rewriter:
    """The rules for one connection.

    Args:
        translator: returns the substitute for each address.
        client: learns the names of the client from its frames.
    """

    def __init__(self, translator: Translator, client: ClientIdentity) -> None:
        self._translator = translator
        self._client = client

    def up(self, frame: bytes) -> bytes:
        """Return a frame of the client, length included, as the server gets it."""
        raise NotImplementedError

    def down(self, frame: bytes) -> bytes:
        """Return a frame of the server, length included, as the client gets it."""
        raise NotImplementedError


class NameServerRewriter(Rewriter):
    """Connections to name servers: rewrites routes on their way down, registrations on their way up."""

    def __init__(self, translator: Translator, client: ClientIdentity) -> None:
        super().__init__(translator, client)
        self._broker_name = ""  # if the client is a broker

    def up(self, frame: bytes) -> bytes:
        command = _decoded(frame)
        if command is None or command.is_response:
            return frame
        node = self._registering(command.ext_fields)
        return command.encode() if self._register(command.ext_fields, node) else frame

    def down(self, frame: bytes) -> bytes:
        command = _decoded(frame)
        if command is None:
            return frame
        changed = self._tell(command.ext_fields)
        body = rewrite_body(command.body, self._translator)
        if body is not None:
            command.body = body
        return command.encode() if changed or body is not None else frame

    def _registering(self, ext: dict[str, str]) -> str:
        """Return the name of the broker that registers itself; "" for any other request."""
        if not {BROKER_FIELD, "brokerName", "brokerId"} <= ext.keys():
            return ""
        self._broker_name = ext["brokerName"]
        node = f"{ext['brokerName']}-{ext['brokerId']}"
        self._client.learn_name(node)
        return node

    def _register(self, ext: dict[str, str], node: str) -> bool:
        translator = self._translator
        changed = _replace(ext, BROKER_FIELD, node, translator.registered_broker)
        return _replace(ext, HA_FIELD, node, translator.registered_ha) or changed

    def _tell(self, ext: dict[str, str]) -> bool:
        master = f"{self._broker_name}-{MASTER}" if self._broker_name else ""
        translator = self._translator
        brokers = [_replace(ext, name, master, translator.broker) for name in REPORTED_BROKERS[:1]]
        brokers += [_replace(ext, name, "", translator.broker) for name in REPORTED_BROKERS[1:]]
        has = [_replace(ext, name, master, translator.ha) for name in REPORTED_HA]
        return any((*brokers, *has))


class BrokerRewriter(Rewriter):
    """Connections to brokers: rewrites ids and records on their way down, learns the client's names on the way up."""

    def up(self, frame: bytes) -> bytes:
        command = _decoded_header(frame)
        if command is None or command.is_response:
            return frame
        if command.code == RequestCode.HEART_BEAT:
            command = _decoded(frame) or command
        self._client.learn_from(command)
        return frame

    def down(self, frame: bytes) -> bytes:
        command = _decoded(frame)
        if command is None:
            return frame
        changed = self._rewrite_header(command)
        body = self._rewritten_body(command)
        if body is not None:
            command.body = body
        return command.encode() if changed or body is not None else frame

    def _rewrite_header(self, command: RemotingCommand) -> bool:
        ext, translator = command.ext_fields, self._translator
        # In requests of brokers (39) msgId is the client's own id; in answers to sends it is the offset id.
        ids = "msgId" if command.is_response else "offsetMsgId"
        changed = _replace_ids(ext, ids, translator)
        if command.is_response:
            for name in (*REPORTED_BROKERS, BROKER_FIELD):
                changed = _replace(ext, name, "", translator.broker) or changed
            changed = _replace(ext, "masterHaAddress", "", translator.ha) or changed
        elif command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            changed = _replace(ext, "storeHost", "", translator.broker) or changed
        return changed

    def _rewritten_body(self, command: RemotingCommand) -> bytes | None:
        body = command.body
        if not body or not (command.is_response or command.code in WITH_RECORD):
            return None
        if body[:1] == b"{":
            return rewrite_body(body, self._translator)
        return rewrite_records(body, self._translator.store_host)


def _decoded(frame: bytes) -> RemotingCommand | None:
    """Decode a frame; None for one that cannot be read, which the receiver rejects itself."""
    try:
        return decode_command(frame[LENGTH_SIZE:])
    except RemoteProtocolError:
        return None


def _decoded_header(frame: bytes) -> RemotingCommand | None:
    """Decode a frame without its body, which may be large and is not needed."""
    try:
        size = int.from_bytes(frame[LENGTH_SIZE + 1 : HEADER_AT], "big")
        return decode_command(frame[LENGTH_SIZE : HEADER_AT + size])
    except RemoteProtocolError:
        return None


def _replace(
    ext: dict[str, str], field: str, name: str, translate: Callable[[str, str], str]
) -> bool:
    """Replace the address in a field, if the frame has the field; return whether it changed."""
    address = ext.get(field)
    if not address:
        return False
    ext[field] = translate(address, name)
    return ext[field] != address


def _replace_ids(ext: dict[str, str], field: str, translator: Translator) -> bool:
    ids = ext.get(field)
    if not ids:
        return False
    ext[field] = rewrite_message_ids(ids, translator.store_host)
    return ext[field] != ids
