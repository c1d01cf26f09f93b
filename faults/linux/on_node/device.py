"""Operations on file systems and loop devices for which there is no command: shut down, shorten, check for use.

device.py shut-down FOLDER | limit DEVICE BYTES | in-use DEVICE
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
import sys

EXT4_IOC_SHUTDOWN = 0x8004587D  # the same number is XFS_IOC_GOINGDOWN
NO_LOG_FLUSH = 2  # do not flush the log: unsynced data is lost, as in a power cut
LOOP_GET_STATUS64 = 0x4C05
LOOP_SET_STATUS64 = 0x4C04
LOOP_INFO64_SIZE = 232  # linux/loop.h
LO_SIZELIMIT_OFFSET = 32


def shut_down(folder: str) -> None:
    """Shut the file system down for all processes: nothing more is written, and every call fails with EIO."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(opened)


def limit(device: str, size_bytes: int) -> None:
    """Make the device end after `size_bytes` (0: where its file ends); calls beyond that fail with EIO."""
    opened = os.open(device, os.O_RDONLY)
    try:
        status = bytearray(LOOP_INFO64_SIZE)
        fcntl.ioctl(opened, LOOP_GET_STATUS64, status)
        struct.pack_into("<Q", status, LO_SIZELIMIT_OFFSET, size_bytes)
        fcntl.ioctl(opened, LOOP_SET_STATUS64, bytes(status))
    finally:
        os.close(opened)


def in_use(device: str) -> bool:
    """Whether a file system of this device is mounted in any mount namespace."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    return False


def main(arguments: list[str]) -> None:
    command, name = arguments[:2]
    if command == "shut-down":
        shut_down(name)
    elif command == "limit":
        limit(name, int(arguments[2]))
    else:
        print(json.dumps(in_use(name)))


if __name__ == "__main__":
    main(sys.argv[1:])
