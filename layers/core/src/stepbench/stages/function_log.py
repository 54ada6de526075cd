"""
What a measured function's layer has written, taken out of its log, or the results table, into t4 items in that table.

Stages that look for arrivals take in first what has come since the last look. Lines become readable some seconds after
they were printed, not in order, so each look begins some time before where the last one ended, and an item that is
stored twice is the same item.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.drivers.receivers.source import copy_name
from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.function_lines import Invocation, item_of, merge_lines
from stepbench.records.formats.platform_lines import PlatformLines, platform_item
from stepbench.records.formats.second_sources import PATTERN, ReportPage, parse_reports
from stepbench.records.storage import layout
from stepbench.records.storage.layout import t4_ns_of
from stepbench.stages.log_pages import PAGE_EVENTS, read_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services

OVERLAP_MS = 60_000
"""How long before the end of the last look the next one begins: CloudWatch may take as long to show a line."""
TABLE_OVERLAP_MS = 10_000
"""Likewise for the results table: an item comes within the layer's two seconds, and clocks differ by milliseconds."""
MOST_WAITS = 1_000
"""Pages and pauses of one look; twice as many pages as the events of a trial fill."""
LOG_POLL_S = 0.5
"""The shortest pause between two looks: CloudWatch answers an account a few such questions a second."""
WRITERS = 8
ERROR_SINCE_MS = 120_000
_ERROR = re.compile(r"\b[A-Z][\w.]*(?:Error|Exception)\b|Task timed out|Status: (?:error|timeout)")
"""In the lines of Lambda's runtimes about an invocation that has failed, or an init."""
_MS_NS = 1_000_000


class LogPosition(Contract):
    """
    How far the lines of a trial's function have been read; stored as `function-log.json`.

    read_to_ms: of the log; table_to_ms: when the results table was last looked at. open: invocations of which something
    is to come. done: keys of the others that a further look may show again, with when their last line was written, ms
    since the epoch.
    """

    read_to_ms: int = 0
    table_to_ms: int = 0
    open: dict[str, Invocation] = Field(default={})
    done: dict[str, int] = Field(default={})


class _Taken(NamedTuple):
    """What a look has left: the position behind it, the time of its last line, and how many invocations it stored."""

    position: LogPosition
    latest_ms: int
    stored: int


def take_in(spec: TrialSpec, services: Services, *, anew: bool = False) -> int:
    """
    Store what the trial's measured function has written since the last look; nothing where it measures none.

    Where its lines go into the results table, that is looked at first. The log then has a line of each invocation that
    began, and all of one that the table did not take: it is read when the table has nothing new.

    Returns:
        How many invocations have begun and not ended, as far as its lines say.

    Args:
        spec: the trial.
        services: its stack's.
        anew: read log and table once more as a whole, since a line may have come later than any look goes back.

    Raises:
        RecordsUnavailableError: log, table or bucket do not answer.
    """
    function = spec.plan.target.function
    if function is None:
        return 0
    place = layout.trial_key(spec.ref, "function-log.json")
    position = services.runs.find_model(place, LogPosition) or LogPosition()
    if anew:
        known = {"done": _stored(spec, services)}
        position = position.model_copy(update={**known, "read_to_ms": 0, "table_to_ms": 0})
    tabled, stored = function.records == "table", 0
    if tabled:
        position, stored = _from_table(spec, position, services)
    if anew or not stored:
        known = {"done": _stored(spec, services)} if tabled else {}
        position = _from_log(spec, position.model_copy(update=known), services)
    services.runs.put_model(place, position)
    return len(position.open)


def _from_table(spec: TrialSpec, position: LogPosition, services: Services) -> tuple[LogPosition, int]:
    """Take in what is new in the results table; return also how much that was."""
    began_ms = services.clock.now_ns() // _MS_NS
    since_ns = max(position.table_to_ms - TABLE_OVERLAP_MS, 0) * _MS_NS
    items = services.table.function_lines(spec.tag, since_ns)
    lines = ((t5_ns // _MS_NS, line) for t5_ns, text in items for line in text.split("\n"))
    taken = _take(spec.tag, position, lines, services)
    return _forget(taken.position, table_to_ms=began_ms), taken.stored


def _from_log(spec: TrialSpec, position: LogPosition, services: Services) -> LogPosition:
    """Take in what is new in the log."""
    function = spec.plan.target.function
    by_platform = function is not None and function.times == "platform"
    pattern = "" if by_platform else f'"{spec.tag}"'  # as all lines have it that are printed for us
    events = _events(spec.tag, position.read_to_ms - OVERLAP_MS, services, pattern)
    lines = ((event["timestamp"], event["message"].rstrip("\n")) for event in events)
    taken = _take(spec.tag, position, lines, services, by_platform=by_platform)
    return _forget(taken.position, read_to_ms=max(position.read_to_ms, taken.latest_ms))


def _take(
    tag: str, position: LogPosition, lines: Iterable[tuple[int, str]], services: Services, *, by_platform: bool = False
) -> _Taken:
    """Merge lines, each with when it was written, into the invocations that are known, and store what has changed."""
    invocations, done, latest_ms = dict(position.open), dict(position.done), 0
    changed: dict[str, int] = {}
    platform = PlatformLines(tag, invocations, done) if by_platform else None
    for at_ms, line in lines:
        latest_ms = max(latest_ms, at_ms)
        for key in platform.merge(at_ms, line) if platform else merge_lines(tag, invocations, [line]):
            if key in done:
                del invocations[key]
            else:
                changed[key] = max(changed.get(key, 0), at_ms)
    item_for = platform_item if by_platform else partial(item_of, tag)
    _store(tag, {key: invocations[key] for key in changed}, item_for, services)
    done |= {key: at_ms for key, at_ms in changed.items() if invocations[key].whole}
    under_way = {key: each for key, each in invocations.items() if key not in done}
    return _Taken(position.model_copy(update={"open": under_way, "done": done}), latest_ms, len(changed))


def _forget(position: LogPosition, **moved: int) -> LogPosition:
    """Move a position on, and leave out what no look at the same place shows again."""
    position = position.model_copy(update=moved)
    tabled, logged = position.table_to_ms - TABLE_OVERLAP_MS, position.read_to_ms - OVERLAP_MS
    since_ms = tabled if position.table_to_ms else logged
    return position.model_copy(update={"done": {key: at for key, at in position.done.items() if at >= since_ms}})


def _stored(spec: TrialSpec, services: Services) -> dict[str, int]:
    """Return the invocations that are stored whole, by their keys, with when they ended."""
    items = services.table.t4_items(spec.tag, attributes="sk, t5_ns")
    return {str(item["sk"]): int(item["t5_ns"]) // _MS_NS for item in items if item.get("t5_ns")}


def _store(
    tag: str,
    invocations: dict[str, Invocation],
    item_for: Callable[[Invocation], dict[str, Any] | None],
    services: Services,
) -> None:
    """Put an item for each invocation whose records are known; one that has not ended is put again when it has."""

    def put(known: tuple[str, Invocation]) -> None:
        key, invocation = known
        if (item := item_for(invocation)) is not None:
            services.table.put_t4(tag, key.rpartition("#")[0], t4_ns_of(key), item)

    known = [(key, invocation) for key, invocation in invocations.items() if invocation.known]
    if len(known) == 1:
        put(known[0])
    elif known:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(put, known))


def keep_reports(spec: TrialSpec, services: Services) -> None:
    """
    Store the REPORT lines of the trial's measured function, whose log goes with it, for `CollectLogs` to find.

    Raises:
        RecordsUnavailableError: log or bucket do not answer.
    """
    if spec.plan.target.function is None:
        return
    receiver = spec.offered.receiver
    events = _events(spec.tag, 0, services, PATTERN)
    for number in count():
        lines = parse_reports(islice(events, PAGE_EVENTS))
        if not lines:
            return
        key = layout.trial_key(spec.ref, f"logs/{receiver}/removed-{number:04d}.json")
        services.runs.put_model(key, ReportPage(function=receiver, lines=lines))


def last_error(spec: TrialSpec, services: Services) -> str:
    """
    Return the kind of the last error in the log of the trial's measured function; "" where there is none.

    Not its text, in which a handler may quote what it was given.
    """
    if spec.plan.target.function is None:
        return ""
    since_ms = services.clock.now_ns() // _MS_NS - ERROR_SINCE_MS
    lines = (line for event in _events(spec.tag, since_ms, services) for line in event["message"].splitlines())
    kinds = [found[0] for line in lines if not line.startswith("{") and (found := _ERROR.search(line))]
    return kinds[-1] if kinds else ""


def _events(tag: str, from_ms: int, services: Services, pattern: str = "") -> Iterator[dict[str, Any]]:
    """
    Yield the log's events since then, those alone that hold the pattern, page by page.

    Raises:
        RecordsUnavailableError: it cannot be read, or not by now.
    """
    group = f"/aws/lambda/{copy_name(tag, services.settings.function_prefix)}"
    asked: dict[str, Any] = {"startTime": max(from_ms, 0), **({"filterPattern": pattern} if pattern else {})}
    for _ in range(MOST_WAITS):
        answer = read_page(group, asked, services)
        if answer is None:
            services.clock.sleep(LOG_POLL_S)
            continue
        events = answer.get("events", ())
        yield from events
        if token := answer.get("nextToken"):
            asked["nextToken"] = token
        elif len(events) >= PAGE_EVENTS:
            asked.pop("nextToken", None)
            asked["startTime"] = max(asked["startTime"] + 1, *(event["timestamp"] for event in events))
        else:
            return
    message = f"log group {group} has not been read to its end: CloudWatch asks for patience, or it holds very much"
    raise RecordsUnavailableError(message)
