"""
What a measured function's layer has printed, taken out of its log into t4 items in the results table.

Stages that look for arrivals take in first what has come since the last look. Lines become readable some seconds after
they were printed, not in order, so each look begins some time before where the last one ended, and an item that is
stored twice is the same item.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.drivers.receivers.source import copy_name
from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.function_lines import Invocation, item_of, merge_lines
from stepbench.records.storage import layout
from stepbench.records.storage.layout import t4_ns_of
from stepbench.stages.log_pages import PAGE_EVENTS, read_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services

OVERLAP_MS = 60_000
"""How long before the end of the last look the next one begins: CloudWatch may take as long to show a line."""
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
    How far the log of a trial's function has been read; stored as `function-log.json`.

    open: invocations of which something is to come. done: keys of the others that a further look may show again, with
    when their last line was printed, ms since the epoch.
    """

    read_to_ms: int = 0
    open: dict[str, Invocation] = Field(default={})
    done: dict[str, int] = Field(default={})


def take_in(spec: TrialSpec, services: Services, *, anew: bool = False) -> int:
    """
    Store what the trial's measured function has printed since the last look; nothing where it measures none.

    Returns:
        How many invocations have begun and not ended, as far as its lines say.

    Args:
        spec: the trial.
        services: its stack's.
        anew: read the whole log once more, since a line may have come later than any look goes back.

    Raises:
        RecordsUnavailableError: log, table or bucket do not answer.
    """
    if spec.plan.target.function is None:
        return 0
    place = layout.trial_key(spec.ref, "function-log.json")
    position = None if anew else services.runs.find_model(place, LogPosition)
    if position is None:
        position = LogPosition(done=_stored(spec, services) if anew else {})
    invocations, done = dict(position.open), dict(position.done)
    changed: dict[str, int] = {}
    latest_ms = position.read_to_ms
    since_ms = position.read_to_ms - OVERLAP_MS
    for event in _events(spec.tag, since_ms, services, f'"{spec.tag}"'):  # as all that the layer prints has it
        latest_ms = max(latest_ms, event["timestamp"])
        for key in merge_lines(spec.tag, invocations, [event["message"].rstrip("\n")]):
            changed[key] = max(changed.get(key, 0), event["timestamp"])
    fresh = {key: invocations[key] for key in changed if key not in done}
    _store(spec.tag, fresh, services)
    done |= {key: changed[key] for key, invocation in fresh.items() if invocation.whole}
    under_way = {key: each for key, each in invocations.items() if key not in done}
    still_shown = {key: at_ms for key, at_ms in done.items() if at_ms >= latest_ms - OVERLAP_MS}
    services.runs.put_model(place, LogPosition(read_to_ms=latest_ms, open=under_way, done=still_shown))
    return len(under_way)


def _stored(spec: TrialSpec, services: Services) -> dict[str, int]:
    """Return the invocations that are stored whole, by their keys, with when they ended."""
    items = services.table.t4_items(spec.tag)
    return {str(item["sk"]): int(item["t5_ns"]) // _MS_NS for item in items if item.get("t5_ns")}


def _store(tag: str, invocations: dict[str, Invocation], services: Services) -> None:
    """Put an item for each invocation whose records are known; one that has not ended is put again when it has."""

    def put(known: tuple[str, Invocation]) -> None:
        key, invocation = known
        if (item := item_of(tag, invocation)) is not None:
            services.table.put_t4(tag, key.rpartition("#")[0], t4_ns_of(key), item)

    known = [(key, invocation) for key, invocation in invocations.items() if invocation.known]
    if len(known) == 1:
        put(known[0])
    elif known:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(put, known))


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
