"""Records on their way out."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from botocore.exceptions import EndpointConnectionError

from stepbench.records.columns import decode
from stepbench.records.flusher import Flusher
from stepbench.records.taken import Taken
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.records import REF, column_header, writer_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepbench.records.columns import Rows


def test_rows_are_put_together_once_and_by_who_sends_them() -> None:
    """On the loop that measures, every answer would be late by as long as that takes."""
    memory = MemoryServices()
    services, built_by = memory.services, []

    def build() -> Rows:
        built_by.append(threading.get_ident())
        return writer_rows([10, 20])

    flusher = Flusher(services.runs, services.table, column_header())
    flusher.add(Taken(2, build), ("",), last=True)
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
        flusher.add(Taken(1_000, build), ("",))
        assert not flusher.send()
    assert len(alive) == 3
    assert [rows() for rows in alive] == [None] * 3
    memory.bucket.put_object = put  # type: ignore[method-assign]
    assert flusher.send()
    assert [pointer.rows for pointer in memory.services.table.files(REF.tag)] == [1_000] * 3


def _away(**_: object) -> None:
    raise EndpointConnectionError(endpoint_url="http://s3")
