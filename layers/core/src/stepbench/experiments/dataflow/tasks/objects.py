"""One attempt's objects on their way to the store and back: several at once, and each a row whatever becomes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from stepbench.contracts.dataflow.rows import BlobRow
from stepbench.drivers.blobs import BlobTransfer
from stepbench.experiments.dataflow.tasks.codec import CodecError, decode, encode
from stepbench.model.errors import TIMEOUT
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.blobs import BlobStore
    from stepbench.experiments.dataflow.tasks.application import Value

IN_FLIGHT = 8
"""The most gets or puts of one task at once."""


class TaskError(Exception):
    """The task has failed; the text is its row's `error`."""


class _Passage:
    """One object's way; what is not known yet is as little as it can be."""

    def __init__(self, name: str, operation: Literal["put", "get"], blob: bytes = b"") -> None:
        self.name, self.operation = name, operation
        self.blob: bytes | bytearray = blob
        self.code_ns = self.connect_ns = 0
        self.transfer = BlobTransfer(0, 0, 0, len(blob), 0, Outcome.UNKNOWN, "")

    def take(self, transfer: BlobTransfer) -> None:
        """Note what came of it; until now, `began_ns` was when it was asked for."""
        self.connect_ns = max(0, transfer.began_ns - self.transfer.began_ns)
        is_ok = transfer.outcome is Outcome.OK
        error = transfer.error if is_ok else transfer.error or transfer.outcome.name.lower()
        self.transfer = transfer._replace(error=error)

    def note(self, **fields: Any) -> None:  # noqa: ANN401 -- a transfer's fields
        """Note what is known of the transfer."""
        self.transfer = self.transfer._replace(**fields)

    def row(self) -> BlobRow:
        own = {"object": self.name, "operation": self.operation, "code_ns": self.code_ns, "connect_ns": self.connect_ns}
        outcome = self.transfer.outcome.name.lower()
        return BlobRow.model_validate(self.transfer._asdict() | own | {"outcome": outcome})

    def failure(self) -> TaskError:
        return TaskError(f"{self.operation} {self.name}: {self.transfer.error}")


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
            passage.note(outcome=Outcome.FAILED, error=str(error))
            raise passage.failure() from error
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
            if passage.transfer.error:
                raise passage.failure()

    async def _pass_some(
        self, waiting: Iterator[_Passage], one: Callable[[_Passage], Coroutine[None, None, None]]
    ) -> None:
        for passage in waiting:
            if self._has_failed:
                return
            self._started.append(passage)
            began_ns = self._clock.now_ns()
            passage.note(began_ns=began_ns)
            try:
                await one(passage)
            except asyncio.CancelledError:  # whether it was done, nobody knows
                passage.note(whole_ns=self._clock.now_ns() - began_ns, error=TIMEOUT)
                raise
            except Exception as error:  # noqa: BLE001 -- against its contract, and this task's failure all the same
                message = f"{type(error).__name__} in the driver: {error}"
                passage.note(whole_ns=self._clock.now_ns() - began_ns, error=message)
            self._has_failed = self._has_failed or bool(passage.transfer.error)

    async def _get(self, passage: _Passage) -> None:
        passage.blob, transfer = await self._store.get(self._key_of(passage.name))
        passage.take(transfer)

    async def _put(self, passage: _Passage) -> None:
        transfer = await self._store.put(self._key_of(passage.name), passage.blob)
        passage.blob = b""
        passage.take(transfer)
