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

from botocore.exceptions import ClientError
from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.drivers.receivers.source import copy_name
from stepbench.errors import shortened
from stepbench.records.formats.function_lines import Invocation, item_of, merge_lines
from stepbench.records.storage import layout
from stepbench.records.storage.layout import t4_ns_of
from stepbench.records.storage.run_store import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services

OVERLAP_MS = 60_000
"""How long before the end of the last look the next one begins: CloudWatch may take as long to show a line."""
PAGE_EVENTS = 10_000
"""FilterLogEvents' limit. Emulators stop there and give no token, so that the rest has to be asked for by time."""
LOG_POLL_S = 0.5
"""The shortest pause between two looks: CloudWatch answers an account a few such questions a second."""
WRITERS = 8
ERROR_CHARS = 200
_ERROR = re.compile(r"\[ERROR\]|\bERROR\b|\w+(Error|Exception)\b|Task timed out|Status: (error|timeout)")
"""In the lines of Lambda's runtimes about an invocation that has failed, or an init."""
_MS_NS = 1_000_000


class LogPosition(Contract):
    """
    How far the log of a trial's function has been read; stored as `function-log.json`.

    open: invocations of which something is to come. done: keys of the others that a further look may show again, with
    when their last line was printed, ms since the epoch.
    """

    read_to_ms: int
    open: dict[str, Invocation] = Field(default={})
    done: dict[str, int] = Field(default={})


def take_in(spec: TrialSpec, services: Services, *, anew: bool = False) -> None:
    """
    Store what the trial's measured function has printed since the last look; nothing where it measures none.

    Args:
        spec: the trial.
        services: its stack's.
        anew: read the whole log once more, since a line may have come later than any look goes back.

    Raises:
        RecordsUnavailableError: log, table or bucket do not answer.
    """
    if spec.plan.target.function is None:
        return
    place = layout.trial_key(spec.ref, "function-log.json")
    position = None if anew else services.runs.find_model(place, LogPosition)
    if position is None:
        position = LogPosition(read_to_ms=_began_ms(spec, services), done=_stored(spec, services) if anew else {})
    invocations, done = dict(position.open), dict(position.done)
    changed: dict[str, int] = {}
    latest_ms = position.read_to_ms
    for event in _events(spec.tag, position.read_to_ms - OVERLAP_MS, services):
        latest_ms = max(latest_ms, event["timestamp"])
        for key in merge_lines(spec.tag, invocations, [event["message"].rstrip("\n")]):
            changed[key] = max(changed.get(key, 0), event["timestamp"])
    fresh = {key: invocations[key] for key in changed if key not in done}
    _store(spec.tag, fresh, services)
    done |= {key: changed[key] for key, invocation in fresh.items() if invocation.whole}
    services.runs.put_model(
        place,
        LogPosition(
            read_to_ms=latest_ms,
            open={key: each for key, each in invocations.items() if key not in done},
            done={key: at_ms for key, at_ms in done.items() if at_ms >= latest_ms - OVERLAP_MS},
        ),
    )


def _stored(spec: TrialSpec, services: Services) -> dict[str, int]:
    """Return the invocations that are stored whole, by their keys, with when they ended."""
    items = services.table.t4_items(spec.tag)
    return {str(item["sk"]): int(item["t5_ns"]) // _MS_NS for item in items if item.get("t5_ns")}


def _began_ms(spec: TrialSpec, services: Services) -> int:
    taken = (lease.taken_at_ns // _MS_NS for lease in services.table.leases() if lease.tag == spec.tag)
    return next(taken, services.clock.now_ns() // _MS_NS)


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
    """Return the first line of the last error in the log of the trial's measured function; "" where there is none."""
    if spec.plan.target.function is None:
        return ""
    group = f"/aws/lambda/{copy_name(spec.tag, services.settings.function_prefix)}"
    try:
        events = services.aws("logs").filter_log_events(logGroupName=group)["events"]
    except ClientError:
        return ""
    lines = [line.strip() for event in events for line in event["message"].splitlines()]
    errors = [line for line in lines if _ERROR.search(line) and not line.startswith("{")]
    return shortened(errors[-1], ERROR_CHARS) if errors else ""


def _events(tag: str, from_ms: int, services: Services) -> Iterator[dict[str, Any]]:
    """Yield the log's events since then that name the trial, as all that the layer prints do, page by page."""
    name = copy_name(tag, services.settings.function_prefix)
    more: dict[str, Any] = {}
    while True:
        try:
            answer = services.aws("logs").filter_log_events(
                logGroupName=f"/aws/lambda/{name}", startTime=max(from_ms, 0), filterPattern=f'"{tag}"', **more
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return  # not made yet, or gone with its copy
            message = f"cannot read the log of the measured function {name}: {error}"
            raise unavailable(message, error) from error
        yield from answer["events"]
        if token := answer.get("nextToken"):
            more = {"nextToken": token}
        elif len(answer["events"]) >= PAGE_EVENTS:
            from_ms, more = max(from_ms + 1, answer["events"][-1]["timestamp"]), {}
        else:
            return
