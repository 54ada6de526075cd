"""Trials of a Map's invocations that have ended, some of them without a record."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.samples.finished_trials import AnalysedTrial
from tests.samples.records import column_header

from stepbench.records.formats.columns import InvocationNote, Rows, encode
from stepbench.records.storage import layout
from stepbench.records.storage.trial_table import FilePointer

MS = 1_000_000
EACH = 10


def note(begin_ms: int, end_ms: int, **fields: Any) -> InvocationNote:  # noqa: ANN401 -- a note's fields
    """Return the note of an invocation in sandbox "one", warm and connected unless told otherwise."""
    common = {"sandbox": "one", "cold": False, "acknowledged": EACH, "connections": 0, "connecting_ns": 0}
    times = {"begin_ns": begin_ms * MS, "end_ns": end_ms * MS, "operating_ns": 100 * MS}
    recording = {"marking_ns": 2 * MS, "stored_ns": None}
    return InvocationNote.model_validate({**common, **times, **recording, **fields})


class InvokedTrial(AnalysedTrial):
    """A trial of six invocations of ten inserts each, two at once."""

    def __init__(self, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
        fields = {
            "target": {"store": "postgresql"},
            "experiment": "operations",
            "workload": {"mix": {"insert": 1}, "records": 0},
            "phases": [{"name": "steady", "invoked": {"operations": EACH}}],
            "writers": 6,
            "max_concurrency": 2,
            **plan,
        }
        super().__init__(store="postgresql", **fields)
        self.records.plan_phase(0)
        self.start_ns = self.records.start_of(0)

    def begin(self, writer: int, attempt: int = 0) -> str:
        """Mark an invocation as begun."""
        name = layout.attempt_id(0, writer, 0, attempt)
        self.memory.services.table.mark_started(self.ref.tag, name)
        return name

    def record(self, writer: int, begin_ms: int, attempt: int = 0, *, in_table: bool = True, **fields: Any) -> None:  # noqa: ANN401 -- a note's fields
        """Record an invocation that takes 120 ms, of whose operations each takes 10."""
        name = self.begin(writer, attempt)
        t1_ns = self.start_ns + (begin_ms + 10) * MS + np.arange(EACH) * 10 * MS
        zeros = np.zeros(EACH, np.int64)
        rows = Rows(
            np.arange(EACH), t1_ns, t1_ns, t1_ns + 10 * MS, zeros.astype(np.uint8), zeros.astype(np.uint16),
            extras={"client": zeros + writer, "kind": zeros + 1},
        )  # fmt: skip
        since_ms = self.start_ns // MS + begin_ms
        invocation = note(since_ms, since_ms + 120, **fields)
        header = column_header(self.ref, writer=writer, attempt=attempt, last=True, invocation=invocation)
        key, body = layout.column_file_key(self.ref, name, 0), encode(header, rows)
        if in_table:
            self.memory.services.table.add_file(self.ref.tag, FilePointer(name, 0, key, EACH, 0, 0), body)
        else:
            self.memory.services.runs.put_bytes(key, body)


def partly_recorded() -> InvokedTrial:
    """Return a trial of which one invocation died and was tried again, one died for good, and two never came."""
    trial = InvokedTrial()
    trial.record(0, 0, cold=True, connections=1, connecting_ns=5 * MS)
    trial.begin(1)
    trial.record(1, 120, attempt=1, sandbox="two", operating_ns=110 * MS)
    trial.begin(2)
    trial.record(3, 180, in_table=False, stored_ns=3 * MS)
    return trial
