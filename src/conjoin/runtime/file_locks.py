"""File locks that end with the process that holds them, on every system that filelock knows.

A lock is the system's own lock on an open file (`flock` on Unix, `LockFileEx` on Windows). The file may stay behind
after the lock is released; only the lock counts. Does not import torch.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

GRACE = 0.2
"""Seconds for which `taken` tries again. A process that only looks (`is_held`) holds the lock for microseconds."""
PAUSE = 0.02
LOOKS = 5
"""How often `is_held` must find the lock held before it says so: the holder may be another process that looks."""


@contextmanager
def taken(path: Path, *, wait: bool = False, remove: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is created where it is missing; `remove` deletes it at the end.

    A BlockingIOError where another process holds it, unless `wait` is set: then this process waits for its turn. An
    OSError where the file cannot be opened or is not a regular file, for opening a named pipe would wait for ever.
    """
    descriptor = _acquired(path, wait=wait)
    try:
        yield
    finally:
        try:
            if remove:  # while it is held: a process that waits for this file notices that it is gone
                with suppress(OSError):
                    path.unlink()
            with suppress(OSError):  # closing releases it, too; this also takes it from processes forked meanwhile
                unlock_descriptor(descriptor)
        finally:
            os.close(descriptor)
        if remove and os.name == "nt":  # Windows keeps files that are open
            with suppress(OSError):
                path.unlink()


def is_held(path: Path) -> bool:
    """Does a process hold the lock of this file? Leaves the file as it is; False where the system does not tell."""
    for look in range(LOOKS):
        if look:
            time.sleep(random.uniform(0, PAUSE / LOOKS))
        try:
            descriptor = _opened_to_look(path)
        except OSError:
            return False
        try:
            if lock_descriptor(descriptor, blocking=False):
                unlock_descriptor(descriptor)
                return False
        except OSError:
            return False
        finally:
            os.close(descriptor)
    return True


def _acquired(path: Path, *, wait: bool) -> int:
    """The open file whose lock this process holds and that `path` still leads to."""
    give_up = time.monotonic() + GRACE
    while True:
        descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
        try:
            if lock_descriptor(descriptor, blocking=False) and _leads_to(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not wait and time.monotonic() > give_up:
            raise BlockingIOError(errno.EAGAIN, "another process holds this lock", str(path))
        time.sleep(PAUSE)


def _opened_to_look(path: Path) -> int:
    """Network file systems lock only files that are open for writing; others let a reader look as well."""
    try:
        return _opened(path, os.O_RDWR)
    except PermissionError:
        return _opened(path, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EROFS:
            return _opened(path, os.O_RDONLY)
        raise


def _opened(path: Path, flags: int) -> int:
    """The file of that very name, no link and no pipe: both are refused before they are opened."""
    with suppress(FileNotFoundError):
        _check_regular(path, os.lstat(path))
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | careful, 0o666)
    try:
        _check_regular(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _leads_to(path: Path, descriptor: int) -> bool:
    """Is the open file still the one of that path? A process that held the lock before may have removed it."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
