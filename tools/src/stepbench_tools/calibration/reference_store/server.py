"""
The reference store: a server that delivers each write after a delay that it draws, and logs the truth.

    python -m stepbench_tools.calibration.reference_store.server --port 0 --truth DIR

It listens on loopback, prints `{"port": …}` when it does, and ends with SIGTERM or, with `--parent PID`, when that
process is no longer its parent. The protocol is that of
`drivers.reference.frames`; how a trial is treated, its driver says by CONFIGURE. Everything is kept in memory until
REMOVE; the truth about a trial, `<tag>.jsonl` in DIR, stays.

Connections are bare sockets: a transport may hold what is written until the loop's turn is over, so that a delivery
would go out later than the truth says.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

import stepbench
from stepbench.clock import SystemClock
from stepbench.contracts.identity import TAG_CHARS
from stepbench.contracts.target import ReferenceTarget
from stepbench.drivers.reference.frames import Frame, FramedSocket, FrameKind, decode_write, encode_frame
from stepbench.load.process import gc_paused
from stepbench_tools.calibration.reference_store.deliveries import ReferenceStore, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock

LOOPBACK = "127.0.0.1"
FLUSH_S = 1.0


class ClientConnection:
    """It serves one client. The kernel stamps what comes in, so this process's waking does not count."""

    def __init__(self, accepted: socket.socket, store: ReferenceStore, clock: Clock) -> None:
        self._store = store
        self._answers: dict[int, Callable[[Frame], bytes]] = {
            FrameKind.CONFIGURE: self._configure,
            FrameKind.STATUS: self._status,
            FrameKind.READ: self._read,
            FrameKind.KEYS: self._keys,
            FrameKind.REMOVE: self._remove,
            FrameKind.VERSION: self._version,
        }
        self._wire = FramedSocket(accepted, clock, self._arrived, self._lost, kernel_stamps=True)

    def close(self) -> None:
        """Close the connection from this side."""
        self._store.forget(self._wire)
        self._wire.close()

    @property
    def is_open(self) -> bool:
        """Return whether the other side may still send."""
        return self._wire.is_open

    def _lost(self, _reason: str) -> None:
        self._store.forget(self._wire)

    def _arrived(self, at_ns: int, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._handle(frame, at_ns)

    def _handle(self, frame: Frame, at_ns: int) -> None:
        try:
            if frame.kind == FrameKind.WRITE:
                self._write(frame, at_ns)
            elif frame.kind == FrameKind.WATCH:
                self._watch(frame)
            elif frame.kind in self._answers:
                self._wire.send(encode_frame(FrameKind.DONE, frame.number, self._answers[frame.kind](frame)))
            else:
                self._wire.send(encode_frame(FrameKind.REFUSED, frame.number, b"UnknownKind"))
        except RefusedError as error:
            self._wire.send(encode_frame(FrameKind.REFUSED, frame.number, str(error).encode()))
        except (KeyError, TypeError, ValueError) as error:
            code = "MalformedTarget" if isinstance(error, ValidationError) else "MalformedRequest"
            self._wire.send(encode_frame(FrameKind.REFUSED, frame.number, code.encode()))

    def _write(self, frame: Frame, at_ns: int) -> None:
        key, value = decode_write(frame.body)
        trial = self._store.trial(key[:TAG_CHARS].decode("ascii"))
        number = trial.next_write()
        self._wire.send(encode_frame(FrameKind.DONE, frame.number, str(number).encode()))
        due = trial.write(number, key, value, at_ns)
        if due is not None:
            self._store.schedule(trial, due)

    def _watch(self, frame: Frame) -> None:
        request = json.loads(frame.body)
        self._store.trial(request["tag"])
        self._wire.send(encode_frame(FrameKind.DONE, frame.number))
        self._store.watch(request["tag"], request["after"], self._wire)

    def _configure(self, frame: Frame) -> bytes:
        request = json.loads(frame.body)
        target = ReferenceTarget.model_validate(request["target"])
        self._store.configure(request["tag"], target, int(request["seed"]))
        return b""

    def _status(self, frame: Frame) -> bytes:
        trial = self._store.trial(json.loads(frame.body)["tag"])
        trial.log.flush()
        return json.dumps({"pending": trial.pending, "position": trial.position}).encode()

    def _read(self, frame: Frame) -> bytes:
        trial = self._store.trials.get(frame.body[:TAG_CHARS].decode("ascii"))
        value = None if trial is None else trial.values.get(frame.body)
        return b"\0" if value is None else b"\1" + value

    def _keys(self, frame: Frame) -> bytes:
        tag = json.loads(frame.body)["tag"]
        trial = self._store.trials.get(tag)
        names = [] if trial is None else [f"trial {tag}", *(key.decode() for key in trial.values)]
        return json.dumps(names).encode()

    def _remove(self, frame: Frame) -> bytes:
        self._store.remove(json.loads(frame.body)["tag"])
        return b""

    def _version(self, _frame: Frame) -> bytes:
        return f"reference store {stepbench.__version__}".encode()


class Listener:
    """The listener has the listening socket, and the connections that are open."""

    def __init__(self, port: int, store: ReferenceStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._connections: set[ClientConnection] = set()
        self._listening = socket.create_server((LOOPBACK, port), backlog=128)
        self._listening.settimeout(0)
        asyncio.get_running_loop().add_reader(self._listening.fileno(), self._accept)

    @property
    def port(self) -> int:
        """Return the port where it listens."""
        return int(self._listening.getsockname()[1])

    def close(self) -> None:
        """Stop listening, and close every connection."""
        asyncio.get_running_loop().remove_reader(self._listening.fileno())
        self._listening.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        try:
            accepted, _ = self._listening.accept()
        except OSError:
            return  # whoever it was has gone again
        accepted.settimeout(0)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections = {each for each in self._connections if each.is_open}
        self._connections.add(ClientConnection(accepted, self._store, self._clock))


async def serve(port: int, truth: Path, announce: Callable[[int], None], parent: int | None = None) -> None:
    """
    Serve until SIGTERM, SIGINT or the parent's end.

    Args:
        port: on loopback; 0 for any that is free.
        truth: the folder of the logs.
        parent: whose end, seen within a second, is ours; None for nobody's.
        announce: called with the port as soon as it listens.
    """
    loop, clock, ended = asyncio.get_running_loop(), SystemClock(), asyncio.Event()
    store = ReferenceStore(truth, clock)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    listener = Listener(port, store, clock)
    try:
        announce(listener.port)
        while not ended.is_set() and parent in (None, os.getppid()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), FLUSH_S)
            store.flush()
    finally:
        listener.close()
        store.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve with the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="stepbench_tools.calibration.reference_store.server", description="A store of known delays."
    )
    parser.add_argument("--port", type=int, default=0, help="on loopback; 0 (the default) for any")
    parser.add_argument("--truth", type=Path, required=True, metavar="DIR", help="where the truth logs go")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this is no longer the parent")
    options = parser.parse_args(arguments)

    def announce(port: int) -> None:
        sys.stdout.write(json.dumps({"port": port}) + "\n")
        sys.stdout.flush()

    options.truth.mkdir(parents=True, exist_ok=True)
    with gc_paused():
        asyncio.run(serve(options.port, options.truth, announce, options.parent))


if __name__ == "__main__":
    main()
