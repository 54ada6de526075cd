"""
Rows of transfers as NDJSON, one JSON object a line: our own form, and that in which others published theirs.

The published form is that of `ecs-lambda-read-perf` (Stubbs, 2024): it has neither first byte nor sandbox nor zone,
and of each transfer when it was logged, which is its end.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from stepbench.contracts.base import Contract
from stepbench.contracts.transfer.plan import MIB, Platform, Source
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.digits import counted
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Form = Literal["own", "published"]
_SOURCES: dict[str, Source] = {"EFS": "efs", "S3": "s3"}
_MARKS: dict[Form, str] = {"own": "began_at_ns", "published": "duration-ns"}
"""A field that lines of one form have, and those of the other have not."""
_RATE_TOLERANCE = 0.005
"""A rate that its writer has rounded is still that of the bytes and the time beside it."""
_MOST_PROBLEMS, _ENOUGH = 20, 1_000
"""So many are named, since a file of another form has one in every line; after so many no further line is read."""


_YEARS = range(1970, 2262)
"""Nanoseconds since the epoch have 63 bits."""


def _moment(text: object) -> datetime:
    """Read `2023-12-05 18:56:03.466`, which is UTC; with an offset, it is converted."""
    found = datetime.fromisoformat(text) if isinstance(text, str) else None
    if found is None or found.year not in _YEARS:
        message = f"is no moment such as 2023-12-05 18:56:03.466, from {_YEARS[0]} to {_YEARS[-1]}"
        raise ValueError(message)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


class PublishedLine(Contract):
    """One transfer in the published form. Fields that repeat another are looked at where they are there."""

    model_config = ConfigDict(populate_by_name=False)

    file: str = Field(min_length=1)
    platform: Platform = Field(alias="type")
    storage: Literal["EFS", "S3"]
    file_bytes: int = Field(alias="file-size", ge=1, lt=2**63)
    duration_ns: int = Field(alias="duration-ns", gt=0, lt=2**63)
    logged_at: Annotated[datetime, BeforeValidator(_moment)] = Field(alias="timestamp")
    file_mib: float | None = Field(default=None, alias="file-size-mb", gt=0)
    mib_per_s: float | None = Field(default=None, alias="mbs", gt=0)
    start_ns: int | None = Field(default=None, alias="start-time")
    end_ns: int | None = Field(default=None, alias="end-time")
    duration_s: float | None = Field(default=None, alias="duration-s", gt=0)
    event: str = ""


class _Broken(NamedTuple):
    """What contradicts what within one line."""

    field: str
    value: object
    message: str


def format_lines(rows: Iterable[TransferRow]) -> str:
    """Return rows as a file in our own form."""
    return "".join(f"{row.model_dump_json()}\n" for row in rows)


def read_lines(text: str, name: str) -> tuple[TransferRow, ...]:
    """
    Read all rows of a file, in either form; its first line shows which.

    Args:
        text: the file's.
        name: the file's, for problems.

    Raises:
        PlanError: lines that are no rows, each with its number, field and value; then nothing is returned.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        remedy = "Give a file with one JSON object a line."
        raise PlanError([Problem(path=name, value="nothing", message="holds no rows", remedy=remedy)])
    form = _form_of(*lines[0], name)
    run_id = f"import-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    problems: list[Problem] = []
    rows: list[TransferRow] = []
    first_of: dict[object, int] = {}
    for number, line in lines:
        path = f"{name}, line {number}"
        found, broken = _read_own(line) if form == "own" else _read_published(line, run_id, number)
        problems += [_problem(path, each) for each in broken]
        if found is not None and not broken:
            earlier = first_of.setdefault(_identity(found, form, line), number)
            if earlier != number:
                message = f"is the read of line {earlier} again"
                remedy = "Remove one of the two; nothing was imported."
                problems.append(Problem(path, "a repeated row", message, remedy))
            rows.append(found)
        if len(problems) >= _ENOUGH:
            break
    if problems:
        raise PlanError(_first_few(problems, name, number))
    return tuple(rows)


def _form_of(number: int, line: str, name: str) -> Form:
    document = _read_object(line)
    if isinstance(document, _Broken):
        raise PlanError([_problem(f"{name}, line {number}", document)])
    for form, mark in _MARKS.items():
        if mark in document:
            return form
    message = f"is a row of no form that is known: it has none of {', '.join(_MARKS.values())}"
    remedy = "See docs/records.md for our own form, and the help of `stepbench import` for the published one."
    raise PlanError([Problem(f"{name}, line {number}", _short(line), message, remedy)])


def _read_object(line: str) -> dict[str, Any] | _Broken:
    try:
        document = json.loads(line)
    except RecursionError:
        return _Broken("", line, "is nested too deeply")
    except ValueError as error:
        return _Broken("", line, f"is not JSON: {error}")
    return document if isinstance(document, dict) else _Broken("", line, "is no JSON object")


def _read_own(line: str) -> tuple[TransferRow | None, list[_Broken]]:
    found, broken = _validated(line, TransferRow, strict=True)
    return found, broken or list(_impossible(found))


def _read_published(line: str, run_id: str, number: int) -> tuple[TransferRow | None, list[_Broken]]:
    found, broken = _validated(line, PublishedLine)
    broken = broken or list(_contradictions(found))
    return (None if broken else _row_of(found, run_id, number)), broken


def _validated(line: str, model: type[Contract], *, strict: bool = False) -> tuple[Any, list[_Broken]]:
    document = _read_object(line)
    if isinstance(document, _Broken):
        return None, [document]
    try:
        return model.model_validate_json(line, strict=strict), []
    except ValidationError as error:
        return None, [_broken_of(document, each) for each in error.errors(include_url=False)]


def _broken_of(document: dict[str, Any], found: Any) -> _Broken:  # noqa: ANN401 -- pydantic's
    field = str(found["loc"][0]) if found["loc"] else ""
    words = {"missing": "is missing", "extra_forbidden": "is no field of this form"}
    message = found["msg"].removeprefix("Value error, ")
    return _Broken(field, document.get(field), words.get(found["type"], message[:1].lower() + message[1:]))


def _row_of(line: PublishedLine, run_id: str, number: int) -> TransferRow:
    began_at_ns = _ns(line.logged_at) - line.duration_ns
    return TransferRow(
        run_id=run_id,
        trial=0,
        number=number - 1,
        attempt=0,
        place=0,
        due_at_ns=began_at_ns,
        began_at_ns=began_at_ns,
        platform=line.platform,
        source=_SOURCES[line.storage],
        path=line.file,
        file_bytes=line.file_bytes,
        received_bytes=line.file_bytes,
        transfer_ns=line.duration_ns,
        sandbox="",
        served=0,
        outcome="ok",
    )


def _contradictions(line: PublishedLine) -> Iterator[_Broken]:
    """Yield where a number is not what others in its line make it."""
    if _ns(line.logged_at) < line.duration_ns:
        yield _Broken("duration-ns", line.duration_ns, "is longer than from 1970 to timestamp")
    if line.file_mib is not None and round(line.file_mib * MIB) != line.file_bytes:
        yield _Broken("file-size-mb", line.file_mib, f"is not what file-size says, {line.file_bytes} bytes")
    if line.duration_s is not None and abs(line.duration_s * 1e9 - line.duration_ns) > max(
        1e3, 1e-6 * line.duration_ns
    ):
        yield _Broken("duration-s", line.duration_s, f"is not what duration-ns says, {line.duration_ns} ns")
    if line.start_ns is not None and line.end_ns is not None and line.end_ns - line.start_ns != line.duration_ns:
        yield _Broken("end-time", line.end_ns, f"is not start-time and duration-ns, {line.duration_ns} ns, later")
    rate = line.file_bytes / MIB / (line.duration_ns / 1e9)
    if line.mib_per_s is not None and abs(line.mib_per_s / rate - 1) > _RATE_TOLERANCE:
        yield _Broken("mbs", line.mib_per_s, f"is not file-size by duration-ns, {rate:.4g} MiB/s")


def _impossible(row: TransferRow) -> Iterator[_Broken]:
    """Yield what no read can have been: marks that go back, bytes that the file has not, an end before the bytes."""
    end_ns = row.transfer_ns
    if row.outcome == "ok" and not end_ns:
        yield _Broken("transfer_ns", end_ns, "has to be above 0 where outcome is ok")
    if row.received_bytes > row.file_bytes:
        yield _Broken("received_bytes", row.received_bytes, f"is more than file_bytes, {row.file_bytes}")
    if any(later < earlier for earlier, later in pairwise(row.mib_ns)):
        yield _Broken("mib_ns", row.mib_ns, "has to be in order")
    if len(row.mib_ns) > row.file_bytes // MIB:
        yield _Broken(
            "mib_ns", row.mib_ns, f"has {len(row.mib_ns)} marks, and the file {row.file_bytes // MIB} whole MiB"
        )
    for name in ("first_byte_ns", "mib_ns"):
        last_ns = row.first_byte_ns if name == "first_byte_ns" else max(row.mib_ns, default=None)
        if last_ns is not None and end_ns is not None and last_ns > end_ns:
            yield _Broken(name, last_ns, f"is later than transfer_ns, {end_ns} ns")


def _identity(row: TransferRow, form: Form, line: str) -> object:
    """Return what no other row may have: of the published form all of the line, since nothing in it names a read."""
    own = (row.run_id, row.trial, row.number, row.attempt, row.place)
    return own if form == "own" else json.dumps(json.loads(line), sort_keys=True)


def _problem(path: str, broken: _Broken) -> Problem:
    where = f"{path}, {broken.field}" if broken.field else path
    remedy = "Mend or remove the line; nothing was imported."
    return Problem(where, _short(broken.value), broken.message, remedy)


def _first_few(problems: list[Problem], name: str, lines: int) -> list[Problem]:
    if len(problems) <= _MOST_PROBLEMS:
        return problems
    more = len(problems) - _MOST_PROBLEMS
    message, remedy = f"has {counted(more, 'more problem')} in its first {counted(lines, 'line')}", "Mend these first."
    return [*problems[:_MOST_PROBLEMS], Problem(name, f"{len(problems)} problems", message, remedy)]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004 -- a terminal's line has room for it


def _ns(moment: datetime) -> int:
    """Return ns since the epoch, exactly: a float has no room for them."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
