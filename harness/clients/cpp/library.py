"""Loads librocketmq 1.2, and reads values that its C interface lacks: a message's queue, attempts, the whole body.

The C interface of a send returns an id made by the client and a queue offset, but no queue and no broker; a listener
does not get its queue. Inside, the library passes these values to functions of its own, which it calls through the
linker's table. This module replaces three entries of that table, and records the arguments by thread.

All this is valid for one file only: that of the wheel rocketmq 0.4.4 for Linux on x86-64. Each recorded value is
compared with the C interface.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable
from importlib import metadata
from typing import Any, ClassVar

from staticfire.harness.clients.line_client import ClientFailed

VERSION = "0.4.4"
LOG_FILES, LOG_FILE_MIB = (
    2,
    10,
)  # bounded, since failed pulls fill the log quickly while a broker is away
POINTER_BYTES = 8
# Of <elf.h>: tags of the dynamic section.
DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_JMPREL = 2, 5, 6, 23
RELOCATION = struct.Struct("<QIIq")  # Elf64_Rela: offset, type, symbol, addend
SYMBOL_BYTES = 24  # Elf64_Sym, which begins with the offset of its name

GET_QUEUE_OFFSET = b"_ZNK8rocketmq10SendResult14getQueueOffsetEv"
GET_RETRY_TIMES_ASYNC = b"_ZNK8rocketmq17DefaultMQProducer19getRetryTimes4AsyncEv"
SET_LAST_CONSUME_TIMESTAMP = b"_ZN8rocketmq11PullRequest23setLastConsumeTimestampEy"
GET_BODY = "_ZNK8rocketmq9MQMessage7getBodyEv"
SET_RETRY_TIMES = "_ZN8rocketmq17DefaultMQProducer13setRetryTimesEi"
SET_CONSUME_FROM = "_ZN8rocketmq21DefaultMQPushConsumer19setConsumeFromWhereENS_16ConsumeFromWhereE"


class LibraryError(ClientFailed):
    """The library cannot be used, or is not of the expected version."""


class CMessageQueue(ctypes.Structure):
    """rocketmq::MQMessageQueue; a std::string is a pointer to its text (ABI of before GCC 5)."""

    _fields_: ClassVar = [
        ("topic", ctypes.c_char_p),
        ("broker", ctypes.c_char_p),
        ("queue_id", ctypes.c_int),
    ]


class CppSendResult(ctypes.Structure):
    """rocketmq::SendResult."""

    _fields_: ClassVar = [
        ("functions", ctypes.c_void_p),
        ("status", ctypes.c_int),
        ("message_id", ctypes.c_char_p),
        ("offset_message_id", ctypes.c_char_p),
        ("queue", CMessageQueue),
        ("queue_offset", ctypes.c_longlong),
    ]


class CppPullRequest(ctypes.Structure):
    """The beginning of rocketmq::PullRequest."""

    _fields_: ClassVar = [("group", ctypes.c_char_p), ("queue", CMessageQueue)]


class Sent:
    """The outcome of the last send of a thread, as far as the library reports it."""

    __slots__ = ("attempts", "broker", "message_id", "offset_message_id", "queue", "queue_offset")

    def __init__(self) -> None:
        self.attempts = 0
        self.message_id = b""
        self.offset_message_id = ""
        self.broker = ""
        self.queue = -1
        self.queue_offset = -1


class Library:
    """The loaded library, with the records of its threads. There is one in a process."""

    def __init__(self, log_folder: str) -> None:
        """Raises LibraryError. The library writes its log below `log_folder`, which it takes for the home folder."""
        os.makedirs(log_folder, exist_ok=True)
        os.environ["HOME"] = log_folder
        try:
            version = metadata.version("rocketmq")
            from rocketmq import ffi
        except (metadata.PackageNotFoundError, ImportError, OSError) as error:
            raise LibraryError(
                f"the C++ client needs the package rocketmq {VERSION}, extra cpp-client: {error}"
            ) from None
        if version != VERSION:
            raise LibraryError(f"the package rocketmq is {version}; expected {VERSION}")
        self.dll: Any = ffi.dll
        self.ffi: Any = ffi
        self._sent: dict[int, Sent] = {}
        self._listening: dict[int, tuple[str, str, int]] = {}
        self._redirect()
        self._get_body = self._function(GET_BODY, ctypes.c_void_p, ctypes.c_void_p)
        self.set_retry_times = self._function(SET_RETRY_TIMES, None, ctypes.c_void_p, ctypes.c_int)
        self.set_consume_from = self._function(
            SET_CONSUME_FROM, None, ctypes.c_void_p, ctypes.c_int
        )

    def _function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        function: Any = getattr(self.dll, name)
        function.restype, function.argtypes = result, arguments
        found: Callable[..., Any] = function
        return found

    def check(self, status: int) -> None:
        """Raises LibraryError unless a function of the C interface returned success."""
        if status:
            raise LibraryError(f"librocketmq failed: {self.last_error()}")

    def last_error(self) -> str:
        """Return the error of the last failed function of the C interface in this thread."""
        return " ".join((self.dll.GetLatestErrorMessage() or b"").decode(errors="replace").split())

    # Records of threads

    def begin_send(self) -> Sent:
        """Forget the last send of this thread; return the object that records the next one."""
        sent = self._sent[threading.get_ident()] = Sent()
        return sent

    def listening_to(self) -> tuple[str, str, int]:
        """Return topic, broker and queue of the message in this thread's listener call. Raises LibraryError."""
        try:
            return self._listening[threading.get_ident()]
        except KeyError:
            raise LibraryError("librocketmq did not say which queue it consumes") from None

    def body(self, message: int) -> bytes:
        """Return the whole body, which the C interface ends at the first zero byte."""
        text = ctypes.cast(self._get_body(message), ctypes.POINTER(ctypes.c_void_p))[0]
        size = ctypes.c_size_t.from_address(text - 3 * POINTER_BYTES).value
        return ctypes.string_at(text, size)

    # The linker's table

    def _redirect(self) -> None:
        slots = linked_functions(
            self.dll, (GET_QUEUE_OFFSET, GET_RETRY_TIMES_ASYNC, SET_LAST_CONSUME_TIMESTAMP)
        )
        offset_type = ctypes.CFUNCTYPE(ctypes.c_longlong, ctypes.c_void_p)
        retries_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        consume_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ulonglong)
        get_retries = self._function(GET_RETRY_TIMES_ASYNC.decode(), ctypes.c_int, ctypes.c_void_p)
        set_timestamp = self._function(
            SET_LAST_CONSUME_TIMESTAMP.decode(), None, ctypes.c_void_p, ctypes.c_ulonglong
        )

        def get_queue_offset(result: int) -> int:
            return self._note_result(CppSendResult.from_address(result))

        def get_retry_times_async(producer: int) -> int:
            self._note_attempt()
            return int(get_retries(producer))

        def set_last_consume_timestamp(request: int, now_ms: int) -> None:
            self._note_queue(CppPullRequest.from_address(request).queue)
            set_timestamp(request, now_ms)

        self._kept_alive = (
            offset_type(get_queue_offset),
            retries_type(get_retry_times_async),
            consume_type(set_last_consume_timestamp),
        )
        for slot, ours in zip(slots, self._kept_alive, strict=True):
            address = ctypes.cast(ours, ctypes.c_void_p).value
            ctypes.c_void_p.from_address(slot).value = address

    def _note_result(self, result: CppSendResult) -> int:
        """Record a send's result; called once a send, when the C interface copies it."""
        sent = self._sent.get(threading.get_ident())
        if sent is not None:
            sent.message_id = result.message_id
            sent.offset_message_id = result.offset_message_id.decode()
            sent.broker = result.queue.broker.decode()
            sent.queue = result.queue.queue_id
            sent.queue_offset = result.queue_offset
        return int(result.queue_offset)

    def _note_attempt(self) -> None:
        """Record an attempt; called right before each attempt to send."""
        sent = self._sent.get(threading.get_ident())
        if sent is not None:
            sent.attempts += 1

    def _note_queue(self, queue: CMessageQueue) -> None:
        """Record a queue; called right before a listener."""
        queue_key = (queue.topic.decode(), queue.broker.decode(), queue.queue_id)
        self._listening[threading.get_ident()] = queue_key


def linked_functions(dll: ctypes.CDLL, names: tuple[bytes, ...]) -> list[int]:
    """Return the addresses at which the linker's table has these functions. Raises LibraryError."""
    base, _, dynamic = struct.unpack("<QQQ", ctypes.string_at(dll._handle, 3 * POINTER_BYTES))
    tags: dict[int, int] = {}
    while (entry := struct.unpack("<qQ", ctypes.string_at(dynamic, 16)))[0]:
        tags[entry[0]] = entry[1]
        dynamic += 16
    found: dict[bytes, int] = {}
    table = ctypes.string_at(tags[DT_JMPREL], tags[DT_PLTRELSZ])
    for offset, _, symbol, _ in RELOCATION.iter_unpack(table):
        name_at = ctypes.c_uint32.from_address(tags[DT_SYMTAB] + symbol * SYMBOL_BYTES).value
        name = ctypes.string_at(tags[DT_STRTAB] + name_at)
        if name in names:
            found[name] = base + offset
    if missing := [name.decode() for name in names if name not in found]:
        raise LibraryError(f"librocketmq does not call {missing[0]}")
    return [found[name] for name in names]
