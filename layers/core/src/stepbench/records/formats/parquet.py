"""
What `records.parquet` holds: its columns, and the trial's facts in its metadata.

The file carries these texts itself, and `docs/records.md` shows them: nothing else describes a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.phase import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RECORDS_SCHEMA = 1
DESCRIPTION = (
    "Stepbench: one row for each event that a trial offered, by ascending t0, warm-ups included. "
    "Times are ns since 1970-01-01 UTC; every column has a unit, a description, and when it is null."
)
_TEXT = "dictionary<values=string, indices=int32, ordered=0>"
_NEVER = "never"
_NOT_SENT = "not sent, or no row of it was recorded"


class Column(NamedTuple):
    """
    One column of the file.

    type: Arrow's. of: the experiment whose files have it. optional: left out of a file in which it would be 0 only.
    """

    name: str
    type: str
    unit: str
    description: str
    null: str = _NEVER
    of: Literal["all", "trigger", "operations"] = "all"
    optional: bool = False

    @property
    def metadata(self) -> dict[str, str]:
        """Return what its field in the file carries."""
        return {"unit": self.unit, "description": self.description, "null": self.null}


def _arrival(name: str, type_: str, unit: str, description: str, null: str = _NEVER) -> Column:
    return Column(name, type_, unit, description, null, of="trigger")


def _operation(name: str, unit: str, description: str, *, optional: bool = True, type_: str = "int64") -> Column:
    return Column(name, type_, unit, description, of="operations", optional=optional)


COLUMNS = (
    Column("phase", _TEXT, "name", "The phase that offered it; `phases` in the file's metadata has its time zero."),
    Column("writer", "uint16", "number", "The writer, from 0."),
    Column("slice", "uint16", "number", "The slice of at most 10 minutes of its phase, from 0."),
    Column("attempt", "uint8", "number", "The writer's attempt at its slice, from 0.", "neither row nor arrival tells"),
    Column("sequence", "int64", "number", "Place within the writer's slice (in closed loop: of the attempt), from 0."),
    Column("t0_ns", "int64", "ns", "Intended send time, by the schedule; in closed loop when the client was ready."),
    Column("t1_ns", "int64", "ns", "The request was handed to the kernel; the writer's clock.", _NOT_SENT),
    Column("t2_ns", "int64", "ns", "The answer was in hand, or was given up; the writer's clock.", _NOT_SENT),
    _arrival("t3_ns", "int64", "ns", "The store's own time of the event.", "not arrived, or the store tells none"),
    _arrival("t4_ns", "int64", "ns", "First arrival: the receiver's first statement, by its clock.", "not arrived"),
    Column("outcome", _TEXT, "name", "`ok`, `failed`, `unknown` (sent, and no answer), `unsent` or `unrecorded`."),
    Column("error", _TEXT, "code", "The store's error; empty where there is none."),
    _arrival("matching", "bool", "yes or no", "To pass the trigger's filter; yes where there is none."),
    _arrival("arrivals", "int32", "count", "Deliveries, the first included; duplicates are those after it."),
    _arrival("retried", "int32", "count", "Of the duplicates, Lambda's own retries."),
    _arrival("late", "bool", "yes or no", "First delivered after the drain limit: counts as not arrived."),
    _arrival("out_of_order", "bool", "yes or no", "Arrived after an event of its writer that was due later."),
    _arrival(
        "batch", "int32", "count", "Records that were delivered together with it, itself included; 0: not arrived."
    ),
    _arrival("batch_index", "uint16", "number", "Its place among them, from 0."),
    _arrival("cold", "bool", "yes or no", "Received by a sandbox's first invocation."),
    _arrival("watch_gap", "bool", "yes or no", "Acknowledged while nobody watched: in no window's n, and no latency."),
    _operation("client", "number", "The client, over all writers; in open loop the connection.", optional=False),
    _operation(
        "kind", "name", "What the operation did; of what was not recorded, `read`.", optional=False, type_=_TEXT
    ),
    _operation("retries", "count", "Retries after conflicts, by the driver."),
    _operation("connect_ns", "ns", "Making a connection for this operation."),
    _operation("tls_ns", "ns", "Its TLS handshake."),
    _operation("authenticate_ns", "ns", "Its authentication."),
    _operation("operate_ns", "ns", "The operation itself on that connection."),
)
METADATA = {
    "description": "What the file is.",
    "schema": "Version of this description; a column that means something else has a new one.",
    "run_id": "The run.",
    "trial": "The trial's number in it, from 0.",
    "name": "The trial's name.",
    "store": "The store, as the plan names it.",
    "experiment": "`trigger`, `operations` or `dataflow`.",
    "drain_limit_s": "Seconds that an arrival may take after the trial's last t2; one after that is `late`.",
    "failure": "The error that ended the trial; empty where none did.",
    "phases": "JSON, the phases that were planned: `name`; `measured`; `start_ns`, its time zero; `offered_s`, for how "
    "long; `windows`, each with its `name`, `from_s` and `to_s` after time zero; of closed loop `clients` and "
    "`think_ms`, of open loop null; `offers_number`, whether it offers a number of events, not for a time.",
    "beside": "JSON, arrivals that are no event's, and so in no row: `canaries`, and `unmatched`, which name no event.",
    "PANDAS_ATTRS": "JSON, all of these but `description` and `schema`: what `pandas.read_parquet` returns as `attrs`.",
}
"""Keys of the file's own metadata."""


class ExportedPhase(Contract):
    """A phase in the file's metadata; `windows` are as they were analysed, none of a phase that is not measured."""

    name: str
    measured: bool
    start_ns: int
    offered_s: float
    windows: tuple[Window, ...] = ()
    clients: int | None = Field(default=None, description="Of closed loop; None of open loop.")
    think_ms: float | None = None
    offers_number: bool = False


def columns_of(*, arrives: bool) -> dict[str, Column]:
    """Return the columns that files of events may have, by name: of events that arrive, or of operations."""
    return {column.name: column for column in COLUMNS if column.of in {"all", "trigger" if arrives else "operations"}}


def describe_columns() -> str:
    """Return the tables of `docs/records.md`, as Markdown."""
    titles = {
        "all": "Columns of every file",
        "trigger": "Columns of triggers and DAGs only",
        "operations": "Columns of operations only",
    }
    parts = [
        f"## {title}\n{describe_table(('column', 'type', 'unit', 'meaning', 'null'), list(_column_rows(of)))}"
        for of, title in titles.items()
    ]
    keys = [(f"`{key}`", meaning) for key, meaning in METADATA.items()]
    return "\n\n".join([*parts, f"## Metadata of the file\n{describe_table(('key', 'meaning'), keys)}"])


def _column_rows(of: str) -> Iterator[tuple[str, ...]]:
    for column in COLUMNS:
        if column.of == of:
            type_ = "string" if column.type == _TEXT else column.type
            left_out = " Left out where all are 0." if column.optional else ""
            yield (f"`{column.name}`", type_, column.unit, column.description + left_out, column.null)


def describe_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
