"""
The reference store: a server that delivers each write after a delay that it draws, and keeps the truth on record.

    python -m stepbench.testing.reference_store --port 0 --truth DIR

It listens on loopback, prints `{"port": …}` when it does, and ends with SIGTERM or, with `--parent PID`, when that
process is no longer its parent. The protocol is that of
`stepbench.wire.frames`; how a trial is treated, its driver says by CONFIGURE. Everything is kept in memory until
REMOVE; the truth about a trial, `<tag>.jsonl` in DIR, stays.

It runs on asyncio's own loop: uvloop's transports hold what is written until the turn is over, so that a delivery
would go out later than the truth says.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import json
import os
import re
import signal
import sys
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from pydantic import ValidationError

import stepbench
from stepbench.clock import SystemClock
from stepbench.contracts.identity import TAG_CHARS
from stepbench.contracts.target import ReferenceTarget
from stepbench.load.quiet import quiet
from stepbench.load.timer import best_timer
from stepbench.testing.reference_trial import Due, Trial
from stepbench.wire.frames import Frame, FrameReader, Kind, MalformedFrameError, decode_write, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock

LOOPBACK = "127.0.0.1"
SPIN_NS = 40_000
FLUSH_S = 1.0
_TAG = re.compile(r"[a-z0-9-]{1,60}")


class RefusedError(Exception):
    """A request that is not done; the code is the answer."""


class _Queued(NamedTuple):
    due_ns: int
    order: int
    trial: Trial
    due: Due


class ReferenceStore:
    """All trials of one server, and the timer that their deliveries wait for."""

    def __init__(self, truth: Path, clock: Clock) -> None:
        self.trials: dict[str, Trial] = {}
        self.watchers: dict[str, set[asyncio.Transport]] = {}
        self._truth = truth
        self._clock = clock
        self._timer = best_timer(clock, SPIN_NS)
        self._heap: list[_Queued] = []
        self._order = count()

    def configure(self, tag: str, target: ReferenceTarget, seed: int) -> None:
        """
        Make a trial, unless it is there.

        Raises:
            RefusedError: it is there and is to be treated in another way, or the tag is none.
        """
        if not _TAG.fullmatch(tag):
            code = "MalformedTag"
            raise RefusedError(code)
        there = self.trials.get(tag)
        if there is None:
            log = (self._truth / f"{tag}.jsonl").open("a", encoding="utf-8")
            self.trials[tag] = Trial(tag, target, seed, self._clock.now_ns(), log)
        elif (there.target, there.seed) != (target, seed):
            code = "TrialExists"
            raise RefusedError(code)

    def trial(self, tag: str) -> Trial:
        """
        A trial.

        Raises:
            RefusedError: there is none.
        """
        if tag not in self.trials:
            code = "NoSuchTrial"
            raise RefusedError(code)
        return self.trials[tag]

    def schedule(self, trial: Trial, due: Due) -> None:
        """Deliver at its time."""
        queued = _Queued(due.due_ns, next(self._order), trial, due)
        heapq.heappush(self._heap, queued)
        if self._heap[0] is queued:
            self._timer.call_at(due.due_ns, self._ring)

    def watch(self, tag: str, after: int | None, transport: asyncio.Transport) -> None:
        """Send what was delivered after a position, and from now on everything."""
        trial = self.trial(tag)
        self.watchers.setdefault(tag, set()).add(transport)
        if after is not None and trial.deliveries[after:]:
            missed = trial.deliveries[after:]
            at_ns = self._clock.now_ns()
            transport.write(b"".join(encode_frame(Kind.CHANGE, each.position, each.value) for each in missed))
            trial.sent(missed, at_ns)

    def forget(self, transport: asyncio.Transport) -> None:
        """A connection has ended."""
        for watchers in self.watchers.values():
            watchers.discard(transport)

    def remove(self, tag: str) -> None:
        """Drop a trial and its watches; its log stays."""
        trial = self.trials.pop(tag, None)
        for transport in self.watchers.pop(tag, set()):
            transport.close()
        if trial is not None:
            trial.log.close()
            self._heap = [queued for queued in self._heap if queued.trial is not trial]
            heapq.heapify(self._heap)

    def flush(self) -> None:
        """Bring all logs to their files."""
        for trial in self.trials.values():
            trial.log.flush()

    def close(self) -> None:
        """Deliver nothing more; close all logs."""
        self._timer.close()
        for tag in list(self.trials):
            self.remove(tag)

    def _ring(self) -> None:
        now_ns = self._clock.now_ns()
        by_tag: dict[str, tuple[Trial, list[Due]]] = {}
        while self._heap and self._heap[0].due_ns <= now_ns:
            queued = heapq.heappop(self._heap)
            by_tag.setdefault(queued.trial.tag, (queued.trial, []))[1].append(queued.due)
        for trial, dues in by_tag.values():
            self._deliver(trial, dues, now_ns)
        if self._heap:
            self._timer.call_at(self._heap[0].due_ns, self._ring)

    def _deliver(self, trial: Trial, dues: Sequence[Due], now_ns: int) -> None:
        deliveries = []
        for due in dues:
            made, later = trial.deliver(due, now_ns)
            deliveries += made
            for each in later:
                self.schedule(trial, each)
        if not deliveries:
            return
        data = b"".join(encode_frame(Kind.CHANGE, each.position, each.value) for each in deliveries)
        for transport in self.watchers.get(trial.tag, ()):
            at_ns = self._clock.now_ns()
            transport.write(data)
            trial.sent(deliveries, at_ns)


class ReferenceProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, store: ReferenceStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, Callable[[Frame], bytes]] = {
            Kind.CONFIGURE: self._configure,
            Kind.STATUS: self._status,
            Kind.READ: self._read,
            Kind.KEYS: self._keys,
            Kind.REMOVE: self._remove,
            Kind.VERSION: self._version,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Called by the event loop."""
        if self._transport is not None:
            self._store.forget(self._transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop; the time of reception before anything else."""
        now_ns = self._clock.now_ns()
        if self._transport is None:
            return
        try:
            for frame in self._reader.feed(data):
                self._take(frame, self._transport, now_ns)
        except MalformedFrameError:
            self._transport.abort()

    def _take(self, frame: Frame, transport: asyncio.Transport, now_ns: int) -> None:
        try:
            if frame.kind == Kind.WRITE:
                self._write(frame, transport, now_ns)
            elif frame.kind == Kind.WATCH:
                self._watch(frame, transport)
            elif frame.kind in self._answers:
                transport.write(encode_frame(Kind.DONE, frame.number, self._answers[frame.kind](frame)))
            else:
                transport.write(encode_frame(Kind.REFUSED, frame.number, b"UnknownKind"))
        except RefusedError as error:
            transport.write(encode_frame(Kind.REFUSED, frame.number, str(error).encode()))
        except (KeyError, TypeError, ValueError) as error:
            code = "MalformedTarget" if isinstance(error, ValidationError) else "MalformedRequest"
            transport.write(encode_frame(Kind.REFUSED, frame.number, code.encode()))

    def _write(self, frame: Frame, transport: asyncio.Transport, now_ns: int) -> None:
        key, value = decode_write(frame.body)
        trial = self._store.trial(key[:TAG_CHARS].decode("ascii"))
        number = trial.next_write()
        transport.write(encode_frame(Kind.DONE, frame.number, str(number).encode()))
        due = trial.write(number, key, value, now_ns)
        if due is not None:
            self._store.schedule(trial, due)

    def _watch(self, frame: Frame, transport: asyncio.Transport) -> None:
        question = json.loads(frame.body)
        self._store.trial(question["tag"])
        transport.write(encode_frame(Kind.DONE, frame.number))
        self._store.watch(question["tag"], question["after"], transport)

    def _configure(self, frame: Frame) -> bytes:
        question = json.loads(frame.body)
        target = ReferenceTarget.model_validate(question["target"])
        self._store.configure(question["tag"], target, int(question["seed"]))
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
    server = await loop.create_server(partial(ReferenceProtocol, store, clock), LOOPBACK, port)
    try:
        announce(server.sockets[0].getsockname()[1])
        while not ended.is_set() and parent in (None, os.getppid()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), FLUSH_S)
            store.flush()
    finally:
        server.close()
        store.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(prog="stepbench.testing.reference_store", description="A store of known delays.")
    parser.add_argument("--port", type=int, default=0, help="on loopback; 0 (the default) for any")
    parser.add_argument("--truth", type=Path, required=True, metavar="DIR", help="where the truth logs go")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this is no longer the parent")
    options = parser.parse_args(arguments)

    def announce(port: int) -> None:
        sys.stdout.write(json.dumps({"port": port}) + "\n")
        sys.stdout.flush()

    options.truth.mkdir(parents=True, exist_ok=True)
    with quiet():
        asyncio.run(serve(options.port, options.truth, announce, options.parent))


if __name__ == "__main__":
    main()
