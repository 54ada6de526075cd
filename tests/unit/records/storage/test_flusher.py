"""Records on their way out."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from tests.samples.records import REF, column_header, writer_rows
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.errors import RecordsLostError
from stepbench.records.formats.columns import PendingRows, decode
from stepbench.records.storage.flusher import FINAL_TRIES, Flusher

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepbench.records.formats.columns import Rows


def test_rows_are_put_together_once_and_by_who_sends_them() -> None:
    """On the loop that measures, every answer would be late by as long as that takes."""
    memory = MemoryServices()
    services, built_by = memory.services, []

    def build() -> Rows:
        built_by.append(threading.get_ident())
        return writer_rows([10, 20])

    flusher = Flusher(services.runs, services.table, column_header())
    flusher.add(PendingRows(2, build), ("",), last=True)
    assert built_by == []
    put = memory.bucket.put_object
    memory.bucket.put_object = _away  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as aside:
        assert not aside.submit(flusher.send).result()
        memory.bucket.put_object = put  # type: ignore[method-assign]
        assert aside.submit(flusher.send).result()
    assert len(built_by) == 1
    assert built_by[0] != threading.get_ident()
    (pointer,) = services.table.files(REF.tag)
    assert decode(pointer.key, services.runs.get_bytes(pointer.key)).rows.t0_ns.tolist() == [10, 20]


def test_what_waits_through_an_outage_is_held_as_it_will_be_sent() -> None:
    """Rows take several times the memory, and an outage may last as long as a slice."""
    memory = MemoryServices()
    flusher = Flusher(memory.services.runs, memory.services.table, column_header())
    put = memory.bucket.put_object
    memory.bucket.put_object = _away  # type: ignore[method-assign]
    alive: list[weakref.ref[NDArray[np.int64]]] = []

    def build() -> Rows:
        rows = writer_rows(range(1_000))
        alive.append(weakref.ref(rows.t0_ns))
        return rows

    for _ in range(3):
        flusher.add(PendingRows(1_000, build), ("",))
        assert not flusher.send()
    assert len(alive) == 3
    assert [rows() for rows in alive] == [None] * 3
    memory.bucket.put_object = put  # type: ignore[method-assign]
    assert flusher.send()
    assert [pointer.rows for pointer in memory.services.table.files(REF.tag)] == [1_000] * 3


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "AccessDeniedException"])
def test_a_table_that_stays_away_loses_no_record(code: str) -> None:
    """Files reach the bucket without their pointers, each of them, and the analysis finds them by listing it."""
    memory, clock = MemoryServices(), FakeClock()
    flusher = Flusher(memory.services.runs, memory.services.table, column_header())
    refused: list[str] = []

    def refuse(*, Item: dict[str, str], **_: object) -> None:  # noqa: N803 -- boto3's
        refused.append(Item["sk"])
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "PutItem")

    memory.table.put_item = refuse  # type: ignore[method-assign]
    for t0_ns in (10, 20):
        flusher.add(PendingRows(1, partial(writer_rows, [t0_ns])), ("",))
        assert not flusher.send()
    flusher.finish(clock)
    files = [decode(key, body) for key, body in sorted(memory.bucket.objects.items())]
    assert [file.rows.t0_ns.tolist() for file in files] == [[10], [20]]
    assert len(refused) == 2 + (1 if code == "AccessDeniedException" else FINAL_TRIES)


def test_a_bucket_that_refuses_is_not_waited_for() -> None:
    """The right is missing a minute later, too; the writer's function has only so long to say what is lost."""
    memory, clock = MemoryServices(), FakeClock()
    flusher = Flusher(memory.services.runs, memory.services.table, column_header())

    def deny(**_: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "PutObject")

    memory.bucket.put_object = deny  # type: ignore[method-assign]
    flusher.add(PendingRows(2, lambda: writer_rows([10, 20])), ("",))
    before_ns = clock.now_ns()
    with pytest.raises(RecordsLostError, match=r"2 records of writer .* could not be stored: .*Access Denied"):
        flusher.finish(clock)
    assert clock.now_ns() == before_ns


def _away(**_: object) -> None:
    raise EndpointConnectionError(endpoint_url="http://s3")
