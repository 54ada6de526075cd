"""
The terminal of a command: its standard streams, whose readers may go away, and the signals that ask it to stop.

Whatever becomes of the streams, the command comes to its end all the same.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from stepbench.errors import BLANKS, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

_LOG_COLUMNS = 200


class MessageStream:
    """
    Messages for people: what cannot be written is dropped, since a closed terminal or a full disk changes no result.

    Args:
        stream: takes the messages as long as it can; all but writing is its own doing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write if that is possible; return the text's length in any case."""
        with suppress(OSError, ValueError):  # ValueError: the stream has been closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if that is possible."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- the stream's
        """Return the stream's own attribute."""
        return getattr(self._stream, name)


@contextmanager
def dropping_messages() -> Iterator[None]:
    """
    Let messages on stderr be dropped where they cannot be written.

    Streams that are closed from the start are /dev/null: a server's socket would get their number otherwise, and what
    children write there.
    """
    _open_closed_streams()
    before = sys.stderr
    sys.stderr = MessageStream(before)
    try:
        yield
    finally:
        sys.stderr = before
        try:
            before.flush()
        except (OSError, ValueError):  # ValueError: it has been closed
            _silence(before)


def _silence(stream: TextIO) -> None:
    """Let go what a stream holds that could not be written: Python tries once more at its exit, and ends with 120."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class DataStream:
    """
    Data for programs: a command comes to its end whatever becomes of its output, and says what could not be written.

    A reader that has enough, as `head` has, is no error. Characters that the stream's encoding lacks are replaced.

    Args:
        stream: takes the data; all but writing is its own doing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False
        self.error: Exception | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")

    def write(self, text: str) -> int:
        """Write, unless nobody reads any more; return the text's length in any case."""
        self._try(partial(self._stream.write, text))
        return len(text)

    def flush(self) -> None:
        """Flush, unless nobody reads any more."""
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- the stream's
        """Return the stream's own attribute."""
        return getattr(self._stream, name)

    def _try(self, call: Callable[[], object]) -> None:
        if self._gone:
            return
        try:
            call()
        except (OSError, ValueError) as error:  # ValueError: it has been closed
            self._gone = True
            self.error = None if isinstance(error, BrokenPipeError) else error
            _silence(self._stream)


@contextmanager
def keeping_data() -> Iterator[DataStream]:
    """Let data go to stdout as far as that takes it; what became of it is known at the end."""
    before = sys.stdout
    sys.stdout = stream = DataStream(before)
    try:
        yield stream
    finally:
        stream.flush()
        sys.stdout = before


def message_console(*, quiet: bool = False) -> Console:
    """Return the console for messages; one that is no terminal is so wide that nothing has to be left out."""
    console = _console(stderr=True, quiet=quiet)
    return console if console.is_terminal else _console(stderr=True, width=_LOG_COLUMNS, quiet=quiet)


def data_console() -> Console:
    """Return the console for data, which goes out as it is: `:key:` in a path must not become a picture of a key."""
    return _console(no_color=True)


def _console(**options: Any) -> Console:  # noqa: ANN401 -- rich's own
    """Return a console that controls its terminal itself, and lets no text do so."""
    from rich.console import Console  # noqa: PLC0415 -- half a second that most commands do without

    class PrintableConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for each in super().render(renderable, options):
                yield each if each.control else each._replace(text=printable(each.text, BLANKS))

    return PrintableConsole(emoji=False, **options)


def _open_closed_streams() -> None:
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 -- no path; for good


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill` and a closed terminal are one interrupt, which a few moments have to be shielded from."""


def interruptible() -> AbstractContextManager[None]:
    """
    Raise KeyboardInterrupt for each signal that asks to stop, also where a shell has set us to ignore it.

    (It does so to every job in the background. A closed terminal is ignored where `nohup` asks for that.) A terminal is
    closed once, and the kernel may say so twice, to the session's leader and to the foreground: the second is ignored,
    since it is nobody's wish to stop stopping.
    """
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return _handled([number for number in STOP_SIGNALS if number not in ignored], _interrupt)


def shielded() -> AbstractContextManager[None]:
    """Ignore the signals for the few seconds in which the last of the processes are ended."""
    return _handled(STOP_SIGNALS, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        signal.signal(number, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:  # noqa: ANN401 -- as `signal.signal` takes
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
