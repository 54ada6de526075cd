"""
Reports of datasets over a span of days, made when they are asked for and stored nowhere.

A function of its own answers these routes: they need Arrow, and the time of a whole analysis.
"""

from __future__ import annotations

import json
import zlib
from datetime import UTC, date, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pyarrow.compute as pc
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path, Query

from stepbench.api.resolver import FRESH, ApiError, ErrorKind, answer_json, asked_by, new_resolver, resolve
from stepbench.contracts.transfer.result import TransferFindings
from stepbench.errors import CorruptRecordsError, Problem
from stepbench.experiments.report.dataset_page import render_dataset, view_dataset
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.planning.problems import shown
from stepbench.records.storage.transfer_datasets import columns_of, read_files
from stepbench.records.storage.transfers import Span, dataset_keys, read_published

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from stepbench.contracts.transfer.plan import PublishedTransfer
    from stepbench.services import Services

app = new_resolver()
_DAY = {"format": "date"}
DatasetNamePath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=60)]
FirstDay = Annotated[str | None, Query(alias="from", description="First day, UTC.", json_schema_extra=_DAY)]
EndDay = Annotated[str | None, Query(alias="to", description="The first day after it.", json_schema_extra=_DAY)]
MAX_FILES, MAX_ROWS, MAX_MIB = 1_500, 24_000, 9_000_000
"""
More would not be read and analysed within 29 s and 3 GB: see docs/datasets.md. Each MiB of a row has a time of its own;
rows of the published sizes have 187 on average.
"""
MAX_ANSWER_BYTES = 6 * 1024 * 1024 - 16 * 1024
"""Lambda's limit for an answer as JSON, less its head."""
SHORTER = "Name a shorter span with from and to, or read the files themselves (docs/datasets.md)."
_HTML = "text/html; charset=utf-8"
_PAGE: Any = {200: {"description": "The page", "content": {"text/html": {"schema": {"type": "string"}}}}}
HEADERS = {
    **FRESH,
    # As from a file, its scripts see nothing of this address: no dashboard, nor the token that a browser has for it.
    "Content-Security-Policy": "sandbox allow-scripts allow-downloads; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


class _Found(NamedTuple):
    """The rows of a span that the caller may see, without any there is none; and published numbers beside them."""

    table: pa.Table
    span: Span
    published: tuple[PublishedTransfer, ...]


@app.get("/datasets/<name>/report", summary="A dataset's page", responses=_PAGE)
def get_dataset_report(name: DatasetNamePath, first: FirstDay = None, end: EndDay = None) -> Response[str]:
    """Return the page about the transfers of a span of days, as `stepbench report --dataset` makes it."""
    found = _find(name, first, end)
    return _page(render_dataset(view_dataset(name, found.table, found.published), found.span.words))


@app.get("/datasets/<name>/summary", summary="What a dataset shows")
def get_dataset_summary(
    name: DatasetNamePath, first: FirstDay = None, end: EndDay = None
) -> Response[TransferFindings]:
    """Return what the transfers of a span of days show, as `stepbench report --dataset --format json` prints it."""
    found = _find(name, first, end)
    return answer_json(find_transfers(columns_of(found.table), published=found.published))


def handle(event: dict[str, Any], context: LambdaContext, services: Services | None = None) -> dict[str, Any]:
    """Answer a request of API Gateway's format 2.0, with these services or those that the environment names."""
    return resolve(app, event, context, services)


def _find(name: str, first: str | None, end: str | None) -> _Found:
    """
    Read the rows of a span that runs of the caller's team, or of the default team, have added to a dataset.

    Raises:
        ApiError: there is no such dataset, and another team's is none; there are no rows, or too many, or they were
            measured with different things.
    """
    (caller, services), span = asked_by(app), read_span(first, end)
    keys = dataset_keys(name, services.runs, caller.teams)
    if not keys:
        message = f"there is no dataset {name} to which runs of your team have added rows"
        problem = Problem("name", shown(name), "is none of your team's", "GET /datasets lists those that there are.")
        raise ApiError(ErrorKind.NOT_FOUND, message, [problem])
    wanted = span.choose(keys)
    if not wanted:
        raise _refused(name, span, "has no rows of your team's runs", "Name another span, or none for all days.")
    if len(wanted) > MAX_FILES:
        raise _refused(name, span, f"has {len(wanted):,} files, and at most {MAX_FILES:,} are read", SHORTER)
    try:
        table = read_files(wanted, services.runs, check=_limit(name, span))
    except CorruptRecordsError as error:
        raise _refused(name, span, f"cannot be read as one: {error}", "Name another span.") from error
    return _Found(table, span, read_published(name, services.runs, caller.teams))


def _limit(name: str, span: Span) -> Callable[[pa.Table], None]:
    """Return what counts rows, and the times of MiB in them, as files are read, and refuses more than fit in memory."""
    rows, mib = 0, 0

    def count(table: pa.Table) -> None:
        nonlocal rows, mib
        rows, mib = rows + table.num_rows, mib + (pc.sum(pc.list_value_length(table["mib_ns"])).as_py() or 0)
        for number, most, what in ((rows, MAX_ROWS, "rows"), (mib, MAX_MIB, "MiB that were timed")):
            if number > most:
                raise _refused(name, span, f"has more {what} than the {most:,} that are analysed", SHORTER)

    return count


def _refused(name: str, span: Span, message: str, remedy: str) -> ApiError:
    problem = Problem("from, to", span.words or "all days", message, remedy)
    return ApiError(ErrorKind.REFUSED, f"there is no report of dataset {name} over this span", [problem])


def _page(page: str) -> Response[str]:
    """Return the answer that a page is, compressed where that is taken; raises ApiError where it is too large."""
    compress = accepts_gzip(app.current_event)
    size = len(json.dumps(page))
    if size > MAX_ANSWER_BYTES and compress:
        size = len(zlib.compress(page.encode(), 9)) * 4 // 3  # as base64
    if size > MAX_ANSWER_BYTES:
        message = f"the page has {size:,} bytes, and an answer {MAX_ANSWER_BYTES:,} at most"
        remedy = "Ask with Accept-Encoding: gzip, or name a shorter span with from and to."
        problem = Problem("Accept-Encoding", "gzip" if compress else "no gzip", message, remedy)
        raise ApiError(ErrorKind.REFUSED, "the page is too large", [problem])
    return Response(HTTPStatus.OK, _HTML, page, headers=dict(HEADERS), compress=compress)


def read_span(first: str | None, end: str | None) -> Span:
    """Return the days from the first to before the last, None: as far as there are any; raises ApiError."""
    found = []
    for name, text in (("from", first), ("to", end)):
        try:
            found.append(None if text is None else _day(text))
        except ValueError as error:
            problem = Problem(name, shown(text), "is no day", "Give one such as 2025-06-01, in UTC.")
            raise ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", [problem]) from error
    span = Span(*found)
    if span.first and span.end and span.first >= span.end:
        problem = Problem("to", shown(end), f"is not after from, {first}", "Name the first day that is left out.")
        raise ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", [problem])
    return span


def _day(text: str) -> date:
    """Return a day; raise ValueError for what is one in another form of ISO 8601, such as a week's."""
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()


def accepts_gzip(event: BaseProxyEvent) -> bool:
    """Return whether who asks takes an answer that is compressed by gzip; a weight of 0 is a no."""
    entries = event.headers.get("accept-encoding", "").replace(" ", "").split(",")
    weights = [entry.partition(";q=")[2] or "1" for entry in entries if entry.partition(";")[0] == "gzip"]
    return any(weight.strip("0.") for weight in weights)
