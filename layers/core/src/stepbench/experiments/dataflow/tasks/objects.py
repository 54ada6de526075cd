"""One attempt's objects on their way to the store and back: several at once, and each a row whatever becomes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from stepbench.contracts.dataflow.rows import BlobRow
from stepbench.experiments.dataflow.tasks.codec import CodecError, decode, encode
from stepbench.model.errors import TIMEOUT
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.blobs import BlobStore, BlobTransfer
    from stepbench.experiments.dataflow.tasks.application import Value

IN_FLIGHT = 8
"""The most gets or puts of one task at once."""


_OUTCOMES: dict[Outcome, Literal["ok", "failed", "unknown"]] = {
    Outcome.OK: "ok",
    Outcome.FAILED: "failed",
    Outcome.UNKNOWN: "unknown",
}


class TaskError(Exception):
    """The task has failed; the text is its row's `error`."""


class _Passage:
    """One object's way; what is not known yet is as little as it can be."""

    def __init__(self, name: str, operation: Literal["put", "get"], blob: bytes = b"") -> None:
        self.name, self.operation = name, operation
        self.blob: bytes | bytearray = blob
        self.blob_bytes = len(blob)
        self.began_ns = self.code_ns = self.connect_ns = self.wait_ns = self.whole_ns = self.requests = 0
        self.outcome, self.error = Outcome.UNKNOWN, ""

    def take(self, transfer: BlobTransfer) -> None:
        """Note what came of it; until now, `began_ns` was when it was asked for."""
        self.connect_ns = max(0, transfer.began_ns - self.began_ns)
        self.began_ns, self.wait_ns, self.whole_ns = transfer.began_ns, transfer.wait_ns, transfer.whole_ns
        self.blob_bytes, self.requests = transfer.blob_bytes, transfer.requests
        self.outcome, self.error = transfer.outcome, transfer.error
        if self.outcome is not Outcome.OK:
            self.error = self.error or self.outcome.name.lower()

    def row(self) -> BlobRow:
        return BlobRow(
            object=self.name,
            operation=self.operation,
            began_ns=self.began_ns,
            code_ns=self.code_ns,
            connect_ns=self.connect_ns,
            wait_ns=self.wait_ns,
            whole_ns=self.whole_ns,
            blob_bytes=self.blob_bytes,
            requests=self.requests,
            outcome=_OUTCOMES[self.outcome],
            error=self.error,
        )


class ObjectPassages:
    """
    All gets and puts of one attempt at a task.

    Values are decoded when the last blob has come, and encoded before the first leaves, so that no blob waits for
    another one's code: what a row says of the store is the store's.

    Args:
        store: connected.
        clock: by which times are read.
        key_of: from an object's name to its key.
    """

    def __init__(self, store: BlobStore, clock: Clock, key_of: Callable[[str], str]) -> None:
        self._store = store
        self._clock = clock
        self._key_of = key_of
        self._started: list[_Passage] = []
        self._has_failed = False

    def rows(self) -> tuple[BlobRow, ...]:
        """Return a row for each object that was asked for or sent so far, in that order."""
        return tuple(passage.row() for passage in self._started)

    async def read(self, names: Sequence[str]) -> list[Value]:
        """
        Return the values of objects.

        Raises:
            TaskError: one of them could not be had.
        """
        passages = [_Passage(name, "get") for name in names]
        await self._pass_all(passages, self._get)
        return [self._decode(passage) for passage in passages]

    async def write(self, names: Sequence[str], values: list[Value]) -> None:
        """
        Store values as objects of these names; `values` is emptied, so that no value is held beside its blob.

        Raises:
            TaskError: one of them could not be stored.
            NotEncodableError: a value has a part that cannot be encoded.
        """
        values.reverse()
        passages = [self._encode(name, values.pop()) for name in names]
        await self._pass_all(passages, self._put)

    def _encode(self, name: str, value: Value) -> _Passage:
        began_ns = self._clock.now_ns()
        passage = _Passage(name, "put", encode(value, self._key_of(name)))
        passage.code_ns = self._clock.now_ns() - began_ns
        return passage

    def _decode(self, passage: _Passage) -> Value:
        began_ns = self._clock.now_ns()
        try:
            return decode(passage.blob, self._key_of(passage.name))
        except CodecError as error:
            passage.outcome, passage.error = Outcome.FAILED, str(error)
            raise _failure(passage) from error
        finally:
            passage.code_ns = self._clock.now_ns() - began_ns
            passage.blob = b""

    async def _pass_all(
        self, passages: Sequence[_Passage], one: Callable[[_Passage], Coroutine[None, None, None]]
    ) -> None:
        """Let the objects pass, some at once; after a failure no other begins."""
        waiting = iter(passages)
        workers = [self._pass_some(waiting, one) for _ in range(min(IN_FLIGHT, len(passages)))]
        await asyncio.gather(*workers)
        for passage in passages:
            if passage.error:
                raise _failure(passage)

    async def _pass_some(
        self, waiting: Iterator[_Passage], one: Callable[[_Passage], Coroutine[None, None, None]]
    ) -> None:
        for passage in waiting:
            if self._has_failed:
                return
            self._started.append(passage)
            passage.began_ns = self._clock.now_ns()
            try:
                await one(passage)
            except asyncio.CancelledError:  # whether it was done, nobody knows
                passage.whole_ns, passage.error = self._clock.now_ns() - passage.began_ns, TIMEOUT
                raise
            except Exception as error:  # noqa: BLE001 -- against its contract, and this task's failure all the same
                passage.whole_ns = self._clock.now_ns() - passage.began_ns
                passage.error = f"{type(error).__name__} in the driver: {error}"
            self._has_failed = self._has_failed or bool(passage.error)

    async def _get(self, passage: _Passage) -> None:
        passage.blob, transfer = await self._store.get(self._key_of(passage.name))
        passage.take(transfer)

    async def _put(self, passage: _Passage) -> None:
        transfer = await self._store.put(self._key_of(passage.name), passage.blob)
        passage.blob = b""
        passage.take(transfer)


def _failure(passage: _Passage) -> TaskError:
    return TaskError(f"{passage.operation} {passage.name}: {passage.error}")
