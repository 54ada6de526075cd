"""Why a read has failed, in few words: a row's `error`, never an exception of the process."""

from __future__ import annotations

import errno
import socket
import ssl

from stepbench.model.errors import CONNECTION_CLOSED, CONNECTION_RESET, TIMEOUT, connect_error
from stepbench.wire.http1 import MalformedHttpError
from stepbench.wire.http1.download import DownloadRefusedError

WRONG_DIGEST = "wrong-digest"
CANCELLED, STOPPED, NO_TIME = "cancelled", "stopped", "process-timeout"
"""Why a read was cut off: the trial's flag; the task was asked to end; the function's own time was over."""


_OF_FILE = frozenset({WRONG_DIGEST, "EIO", "EACCES", "EPERM"})
"""What a file made anew is rid of, and what its size and its noted digest do not show."""


def is_damage(error: str) -> bool:
    """Return whether a row's `error` is the file's own: `SeedFiles` then makes it anew before the next trial."""
    return error in _OF_FILE


class ReadFailedError(Exception):
    """A read has failed; the text is its row's `error`."""


def wrong_length(found_bytes: int, expected_bytes: int) -> str:
    """Return what is said of a file, or an object, that is not as long as it has to be."""
    return f"wrong-length: {found_bytes} bytes in place of {expected_bytes}"


def read_error(error: BaseException, *, connected: bool) -> str:  # noqa: PLR0911 -- a table
    """Return a row's `error`; `connected`: whether the connection had been made, if there was one to be made."""
    match error:
        case ReadFailedError() | DownloadRefusedError():
            return str(error)
        case MalformedHttpError():
            return error.code
        case ssl.SSLEOFError() if connected:
            return CONNECTION_CLOSED
        case socket.gaierror():
            return "connect: no address"
        case OSError() if not connected:
            return connect_error(error)
        case ConnectionResetError() | BrokenPipeError():
            return CONNECTION_RESET
        case ssl.SSLError():
            return f"tls: {error.reason}" if error.reason else "tls: failed"
        case TimeoutError():
            return TIMEOUT
        case OSError(errno=int(number)) if number in errno.errorcode:
            return errno.errorcode[number]
        case _:
            return f"{type(error).__name__} in the program"
