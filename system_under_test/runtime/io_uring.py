"""fdatasync by Linux's io_uring: the kernel's threads wait for the disk, and the event loop gets their result.

A thread of ours would have to take the interpreter's lock before and after the call: about eight futex calls and four
switches of threads for one flush (`strace -fc`). The kernel's threads belong to this process, so a cgroup that limits
the disk for this process limits them, too.

Source: io_uring_setup(2), io_uring_enter(2), linux/io_uring.h.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import mmap
import os
import struct
import sys
from collections.abc import Callable

Done = Callable[[BaseException | None], None]

# MIPS and Alpha have other numbers, and refuse these.
_SYS_IO_URING_SETUP = 425
_SYS_IO_URING_ENTER = 426
# io_uring_params: ten words, and ten for each of the two queues, of which the last three are not used
_PARAMS = struct.Struct("<10I10I10I")
_FEATURES, _SQ_OFFSETS, _CQ_OFFSETS = 5, 10, 20  # words of it
_FEATURE_SINGLE_MMAP = 1
_OFFSET_OF_SQES = 0x10000000  # of the second mapping
_SQE = struct.Struct("<BBHiQQIIQQQQ")  # 64 bytes
_SQE_DESCRIPTOR = slice(4, 8)
_CQE_SIZE = 16
_CQE_RESULT = struct.Struct("<8xi")
_OP_FSYNC = 3
_FSYNC_DATASYNC = 1
_WORD = 1 << 32
# With these errors the kernel has not begun to sync: it has no thread for it, because of a limit of processes, say.
NOT_TRIED = frozenset({errno.ECANCELED, errno.EAGAIN, errno.EINTR})


class IoUring:
    """A ring for one fdatasync at a time; it takes three descriptors.

    Raises OSError if this kernel or this container has no io_uring.
    """

    _descriptor = -1
    _copy = -1

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        if sys.platform != "linux":
            raise OSError(f"{sys.platform} has no io_uring")
        self._loop = loop
        self._enter = _system_call(_SYS_IO_URING_ENTER)
        params = ctypes.create_string_buffer(_PARAMS.size)
        self._descriptor = _system_call(_SYS_IO_URING_SETUP)(1, params)
        words = _PARAMS.unpack(params.raw)
        if not words[_FEATURES] & _FEATURE_SINGLE_MMAP:
            raise OSError("this kernel's io_uring is too old")
        self._map(words)
        self._done: Done | None = None  # of the call in flight
        self._is_closing = False
        loop.add_reader(self._descriptor, self._take)

    def _map(self, words: tuple[int, ...]) -> None:
        # indexes of words of the ring
        self._sq_tail = words[_SQ_OFFSETS + 1] // 4
        self._cq_head = words[_CQ_OFFSETS] // 4
        self._cq_tail = words[_CQ_OFFSETS + 1] // 4
        self._cq_entries, self._cqes = words[1], words[_CQ_OFFSETS + 5]
        self._ring = mmap.mmap(self._descriptor, self._cqes + self._cq_entries * _CQE_SIZE)
        self._words = memoryview(self._ring).cast("I")
        # The only slot: each call differs in the descriptor alone. (The slot's number in the array of the queue is 0.)
        self._slot = mmap.mmap(self._descriptor, mmap.PAGESIZE, offset=_OFFSET_OF_SQES)
        _SQE.pack_into(self._slot, 0, _OP_FSYNC, 0, 0, 0, 0, 0, 0, _FSYNC_DATASYNC, 0, 0, 0, 0)
        self._synced = memoryview(self._slot)[_SQE_DESCRIPTOR].cast("i")

    def fdatasync(self, descriptor: int, done: Done) -> None:
        """Begin to sync a file; `done` is called in the loop with the error or None.

        The call before must have ended. The file may be closed meanwhile. Raises OSError if the kernel does not take
        the call, which has no effect then. The error may be one of NOT_TRIED.
        """
        assert self._done is None
        # The kernel looks the number up late: it must not be that of another file by then.
        self._synced[0] = self._copy = os.dup(descriptor)
        tail = self._words[self._sq_tail]
        self._words[self._sq_tail] = (tail + 1) % _WORD
        try:
            self._submit()
        except OSError:
            self._words[self._sq_tail] = tail
            self._close_copy()
            raise
        self._done = done

    def _submit(self) -> None:
        if self._enter(self._descriptor, 1, 0, 0, None, 0) != 1:
            raise OSError(errno.EAGAIN, "the kernel has not taken the call")

    def _close_copy(self) -> None:
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _take(self) -> None:
        head = self._words[self._cq_head]
        if head == self._words[self._cq_tail]:  # the kernel still has work of its own to do
            return
        done, self._done = self._done, None
        assert done is not None
        at = self._cqes + head % self._cq_entries * _CQE_SIZE
        (result,) = _CQE_RESULT.unpack_from(self._ring, at)
        self._words[self._cq_head] = (head + 1) % _WORD
        self._close_copy()
        if self._is_closing:
            self._loop.remove_reader(self._descriptor)
        done(OSError(-result, os.strerror(-result)) if result < 0 else None)

    def close(self) -> None:
        """Report no call any more once the one in flight has ended."""
        self._is_closing = True
        if self._done is None:
            self._loop.remove_reader(self._descriptor)

    def __del__(self) -> None:
        """Runs when neither the worker nor the loop refers to this object any more; the loop may have ended first."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._close_copy()


def _system_call(number: int) -> Callable[..., int]:
    """The system call as a function that keeps the interpreter's lock, since it does not block. It raises OSError."""
    try:
        call = ctypes.PyDLL(None, use_errno=True)["syscall"]
    except (OSError, AttributeError) as error:
        raise OSError(f"no system calls here: {error}") from error
    call.restype = ctypes.c_long

    def checked(*arguments: object) -> int:
        result: int = call(ctypes.c_long(number), *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    return checked
