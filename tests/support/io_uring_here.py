"""The availability of io_uring to this process, found out without the code that is tested."""

from __future__ import annotations

import ctypes
import errno

import pytest

_SYS_IO_URING_SETUP = 425


def has_io_uring() -> bool:
    """Ask for a ring without entries: a kernel that has rings calls that an invalid argument."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(ctypes.c_long(_SYS_IO_URING_SETUP), 0, None)
    return ctypes.get_errno() in (errno.EINVAL, errno.EFAULT)


NEEDS_RING = pytest.mark.skipif(
    not has_io_uring(), reason="this kernel or container has no io_uring"
)
