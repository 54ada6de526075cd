"""
What a measured function's layer prints of each invocation, read into t4 items. Pure.

The layer (`layers/measuring/`) prints one JSON object a line: `stepbench.t4` when the handler begins, and
`stepbench.t5` when it has returned or raised. The records of a small batch are in the first, so that an invocation that
dies shows what it had; those of a large one follow the handler, in `stepbench.records` lines and in `stepbench.t5`, so
that to write them down is no part of its time. `docs/your-function.md` describes the lines for runtimes that print them
themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError
from pydantic_core import from_json

from stepbench.contracts.base import Contract, ForeignText
from stepbench.records.formats.deliveries import POSTGRESQL_SOURCE, T3_RESOLUTION_NS, pack_one_by_one, parse_delivery
from stepbench.records.formats.t4 import FUNCTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T4, T5, RECORDS = "stepbench.t4", "stepbench.t5", "stepbench.records"
_BEGIN = '{"stepbench.'

Ns = Annotated[int, Field(ge=0, lt=2**63)]
"""What column files hold; a function that prints its lines itself may print any number."""
Record = tuple[Any, ...]
"""As the layer writes it, by the source: what is needed of a record to know its event, and nothing of its content."""


class Line(Contract):
    """What all lines have: which trial, which invocation."""

    trial: str
    request: str = Field(max_length=200)
    t4: Ns
    records: tuple[Record, ...] = ()

    @property
    def key(self) -> str:
        """Return what names the invocation: a retry has the same request id, and another time."""
        return f"{self.request}#{self.t4:020d}"


class Begin(Line):
    """The handler begins; `t4_resolution_ns`: how fine the runtime's wall clock is, Node.js's 1,000."""

    sandbox: str
    cold: bool = False
    init_ns: Ns = 0
    t4_resolution_ns: int = Field(default=1, ge=1, lt=2**63)
    batch: int = Field(ge=0)
    source: str = ""


class End(Line):
    """
    The handler has returned, or raised an `error`.

    called: when it was called, behind what the layer does first; without it, at t4. failed: what its partial batch
    response lists.
    """

    t5: Ns
    called: Ns = 0
    error: ForeignText = ""
    failed: tuple[str, ...] | None = None


class Part(Line):
    """Some records of a large batch, the first of which stands at `start` in it."""

    start: int = Field(ge=0, alias="from")


class Invocation(Contract):
    """One invocation, as far as its lines have come."""

    begin: Begin | None = None
    end: End | None = None
    parts: tuple[Part, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """Return its records, in the batch's order, as far as they are known."""
        if self.begin is not None and self.begin.records:
            return self.begin.records
        by_start = {part.start: part for part in self.parts}
        behind = [record for start in sorted(by_start) for record in by_start[start].records]
        return (*behind, *(self.end.records if self.end else ()))

    @property
    def known(self) -> bool:
        """Return whether it is known what it had."""
        return self.begin is not None and len(self.records) == self.begin.batch

    @property
    def whole(self) -> bool:
        """Return whether nothing more of it is to come."""
        return self.known and self.end is not None

    def with_line(self, line: Line) -> Invocation:
        """Return it with one line more."""
        match line:
            case Begin():
                return self.model_copy(update={"begin": line})
            case End():
                return self.model_copy(update={"end": line})
            case Part():
                return self.model_copy(update={"parts": (*self.parts, line)})
        message = f"{type(line).__name__} is no line of an invocation"
        raise TypeError(message)


_MODELS: dict[str, type[Line]] = {T4: Begin, T5: End, RECORDS: Part}


def parse_line(message: str) -> Line | None:
    """
    Return what a line of the log says; None for any other line, also for one that the user's code has made up.

    What the function has printed without the end of a line stands before it, or what its logger puts before any text.
    """
    begin = message.rfind(_BEGIN)  # in texts of a line of ours, quotes are escaped
    if begin < 0:
        return None
    try:
        # Unlike `json` this refuses halves of characters, which nothing can store.
        ((name, fields),) = from_json(message[begin:]).items()
        return _MODELS[name].model_validate(fields)
    except (ValueError, KeyError, AttributeError, ValidationError):
        return None


def merge_lines(tag: str, invocations: dict[str, Invocation], messages: Iterable[str]) -> Iterator[str]:
    """Add the lines of a trial to its invocations, by their keys; yield the key of each that has changed."""
    for line in map(parse_line, messages):
        if line is not None and line.trial == tag:
            invocations[line.key] = invocations.get(line.key, Invocation()).with_line(line)
            yield line.key


def item_of(tag: str, invocation: Invocation) -> dict[str, Any] | None:
    """
    Return the t4 item of an invocation whose records are known; None where none of them is the trial's.

    What is not processed comes again: all from the first record on that the response lists, as Lambda has it for
    streams; all where the handler raised, or has not ended, or lists what is none of its records.
    """
    begin, end = invocation.begin, invocation.end
    if begin is None:
        return None
    records = invocation.records
    delivery = pack_one_by_one(parse_delivery(_event(begin.source, records), begin.t4))
    share = delivery.shares.get(tag)
    if share is None:
        return None
    item = {
        "n": share.arrivals,
        "entries": share.entries,
        "ignored": share.ignored,
        "sandbox": begin.sandbox,
        "cold": begin.cold,
        "init_ns": begin.init_ns,
        "batch": begin.batch,
        "source": FUNCTION,
        "t3_resolution_ns": T3_RESOLUTION_NS[delivery.store],
        "t4_resolution_ns": begin.t4_resolution_ns,
        "called_ns": end.called if end and begin.t4 <= end.called <= end.t5 else begin.t4,
        "t5_ns": end.t5 if end else 0,
        "failed_from": _failed_from(begin, end, records),
        "error": end.error if end else "",
    }
    return {**item, "tokens": share.tokens} if share.tokens else item


def _failed_from(begin: Begin, end: End | None, records: tuple[Record, ...]) -> int:
    if end is None or end.error:
        return 0
    if not end.failed:
        return begin.batch
    if begin.source != "aws:dynamodb":
        return begin.batch  # nobody reads a partial response of single events
    places = {str(record[-1]): place for place, record in enumerate(records) if record}
    return min(places.get(failed, 0) for failed in end.failed)


def _event(source: str, records: tuple[Record, ...]) -> dict[str, Any]:
    """Return the event of these records, as far as it names events. Records of another shape become malformed."""
    if source == POSTGRESQL_SOURCE:
        event, t3_us = _filled(records[0] if records else (), ("", 0))
        return {"source": source, "event": event, "t3_us": t3_us}
    return {"Records": [{"eventSource": source, **_record(source, record)} for record in records]}


def _record(source: str, record: Record) -> dict[str, Any]:
    if source == "aws:s3":
        key, name, time, version = _filled(record, ("", "", "", ""))
        return {"eventName": name, "eventTime": time, "s3": {"object": {"key": key, "versionId": version}}}
    name, keys, identity, at_s, number = _filled(record, ("", (), "", 0, ""))
    change = {
        "ApproximateCreationDateTime": at_s,
        "SequenceNumber": number,
        "Keys": {str(place): {"S": key} for place, key in enumerate(keys if isinstance(keys, list | tuple) else ())},
        "NewImage": {"value": {"S": identity}} if identity else {},
    }
    return {"eventName": name, "dynamodb": change}


def _filled(record: Record, defaults: Record) -> Record:
    """Return a record's fields, and the defaults of those that it lacks."""
    return (*record[: len(defaults)], *defaults[len(record) :])
